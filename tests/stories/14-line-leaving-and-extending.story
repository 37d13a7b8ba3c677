# Release leaves the line, as a whole; extend moves the end of waiting. An offer begins a lifetime of its own.
limits   max_lifetime=100
pool     show total=1
hold     a show 1 ttl=90                      -> held
join     b show 1 ttl=50 offer_ttl=60         -> waiting
join     c show 1 ttl=50 offer_ttl=60         -> waiting
join     d show 1 ttl=101 offer_ttl=60        -> lifetime_exceeded
release  b token=thief                        -> not_owner
release  b 1                                  -> quantity_exceeds_hold
extend   c by=51                              -> lifetime_exceeded
extend   c by=40                              -> waiting deadline=90 held_slot=none
extend   c ttl=10                             -> waiting deadline=90      # never shortens
expire   c                                    -> not_due
release  b reason=user_cancelled              -> released ended_slot=0 reason=user_cancelled fence=0
release  b                                    -> already_released
place    b                                    -> none
place    c                                    -> 1
history  b                                    -> waiting released
history  c                                    -> waiting extended
join     d show 1 ttl=100 offer_ttl=10        -> waiting number=3
release  d token=none force reason=operator   -> released
entry    d -1                                 -> hold.released forced=true show.waiting=-1 show.held=0
clock    80
release  a                                    -> released
expect hold c                                 -> held deadline=140
extend   c until=180                          -> held                    # 100 from the offer, not from the join
extend   c by=1                               -> lifetime_exceeded
