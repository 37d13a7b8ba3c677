# An ended hold can be read for the retention; from then on it has retired, swept or not. History stays.
limits   retention=100
pool     gpu total=3
hold     a gpu 1 ttl=60                     -> held
release  a                                  -> released
hold     b gpu 1 ttl=10                     -> held
clock    99.999999
expect hold a                               -> released
confirm  a                                  -> already_released
clock    100
expect hold a                               -> hold_retired
confirm  a                                  -> hold_retired
release  a                                  -> hold_retired
return   a                                  -> hold_retired
extend   a by=1                             -> hold_retired
expire   a                                  -> hold_retired
confirm  a token=thief                      -> hold_retired
expect hold b                               -> expired
clock    110
expect hold b                               -> hold_retired          # its end was its deadline
sweep                                       -> done
expect holds                                -> nothing
history  a                                  -> held released
expect hold @9                              -> hold_not_found
expect pool gpu                             -> held=0 consumed=0
