# Limits that are stored with the data can be changed. A lowered one cancels nothing; what retired stays so.
limits   retention=100 retry_window=50
pool     gpu total=9
hold     a gpu 1 ttl=90 op=take             -> held
change   max_ttl=60 retry_window=10 actor=user:7 reason=audit -> done version=1
hold     b gpu 1 ttl=61                     -> invalid field=ttl code=ttl_too_long
hold     b gpu 1 ttl=60                     -> held
expect hold a                               -> held
clock    20
hold     a gpu 1 ttl=90 op=take             -> held replayed # it keeps the window that it was written under
release  b                                  -> released
clock    60
change   retention=30
expect hold b                               -> hold_retired
change   retention=1000                     -> done version=3
expect hold b                               -> hold_retired             # what is gone is gone
release  a                                  -> released
clock    900
sweep                                       -> done
expect hold a                               -> released
change   max_legs=3 if_version=0            -> version_conflict
