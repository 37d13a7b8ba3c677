# With keep_rest the hold goes on, step by step; the last step names the final state.
pool     seats total=5
hold     a seats 5 ttl=60             -> held
confirm  a 2 keep_rest                -> held confirmed=2 held=3
expect pool seats                     -> held=3 consumed=2 available=0
release  a 1                          -> held held=2
confirm  a 1 keep_rest                -> held confirmed=3 held=1
extend   a by=60                      -> held deadline=120
confirm  a 2 keep_rest                -> quantity_exceeds_hold left=1
confirm  a 1 keep_rest                -> confirmed confirmed=4 held=0
expect pool seats                     -> held=0 consumed=4 available=1
history  a  -> held partly_confirmed partly_released partly_confirmed extended confirmed
