# A window is half open: what is decided exactly at its end belongs to the next one, and the retry stays where it was.
rate    api 2/60s
rate consume a api me 2               -> confirmed ~rates/api/me/60s@0.confirmed=2
rate consume b api me                 -> insufficient_capacity available=0 total=2 retry_after=60
rate consume b api you                -> confirmed
clock   59.999999
rate consume c api me op=late         -> insufficient_capacity retry_after=0.000001
clock   60
rate consume d api me                 -> confirmed ~rates/api/me/60s@60.confirmed=1
rate consume c api me op=late         -> insufficient_capacity replayed retry_after=0
expect  pool ~rates/api/me/60s@0      -> consumed=2 available=0
sweep                                 -> done expired=0
expect  pools prefix=~rates/          -> ~rates/api/me/60s@60
return  a                             -> confirmed returned=2          # its window is gone, and nothing else moves
expect  pool ~rates/api/me/60s@60     -> consumed=1 available=1
restart
rate consume e api me                 -> confirmed
rate consume f api me                 -> insufficient_capacity retry_after=60
