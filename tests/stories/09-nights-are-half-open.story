# A stay is one hold over its nights, all or nothing; the day of check-out is free, and a night that is over is closed.
calendar inn double:2 suite:1 zone=Europe/Lisbon
clock    31536000                                        # New Year 1971
calendar hold a inn double:2 suite:1 1971-07-01 1971-07-04 ttl=60 -> held
calendar hold b inn suite 1971-07-04 1971-07-06 ttl=60          -> held
calendar hold c inn double:1 suite:1 1971-07-02 1971-07-05 ttl=60 -> insufficient_capacity available=0
confirm  a entity=booking:1                                     -> confirmed
expect   pool ~calendar/inn/suite/1971-07-03                    -> consumed=1 available=0
release  b ~calendar/inn/suite/1971-07-05:1                     -> held
calendar hold d inn suite 1971-07-05 1971-07-06 ttl=60          -> held
return   a ~calendar/inn/suite/1971-07-03:1                     -> confirmed
calendar hold e inn suite 1971-07-03 1971-07-04 ttl=60 op=e     -> held
calendar hold e inn suite 1971-07-03 1971-07-04 ttl=60 op=e     -> held replayed
calendar hold f inn suite 1971-07-01 1971-07-01 ttl=60          -> invalid field=end code=end_not_after_begin
clock    47343599                                        # a second before midnight in Lisbon, which is an hour before that of UTC
calendar hold g inn suite 1971-07-02 1971-07-03 ttl=60          -> insufficient_capacity
calendar hold h inn double 1971-07-04 1971-07-05 ttl=60         -> held
clock    47343600
calendar hold i inn double 1971-07-02 1971-07-05 ttl=60         -> window_closed now=47343600 transient=false
