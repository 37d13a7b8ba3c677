# Retention counts from the end: a long hold that is alive stays, however old.
limits   retention=10 max_lifetime=1000
pool     gpu total=1
hold     a gpu 1 ttl=500                    -> held
clock    499
sweep                                       -> done expired=0
release  a                                  -> released
clock    508
expect hold a                               -> released
clock    509
expect hold a                               -> hold_retired
