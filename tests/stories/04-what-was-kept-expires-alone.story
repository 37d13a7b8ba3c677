# If the rest of a partly confirmed hold expires, what was confirmed stays consumed.
pool     seats total=5
hold     a seats 5 ttl=60             -> held
confirm  a 2 keep_rest                -> held
clock    60
confirm  a 1                          -> hold_expired
expect hold a                         -> expired confirmed=2 held=0 ended_slot=60
expect pool seats                     -> held=0 consumed=2 available=3
history  a                            -> held partly_confirmed expired
return   a 1                          -> expired confirmed=2 returned=1     # units can come back all the same
expect pool seats                     -> consumed=1
