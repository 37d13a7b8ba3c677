# Folding the journal rebuilds exactly what is stored, after every kind of change.
limits   retention=50 retention_consumed=50 retry_window=50
pool     gpu total=6
pool     cpu total=6
hold     a gpu:2 cpu:2 ttl=20 op=1          -> held
hold     b gpu:1 tmp:1/3 ttl=10 op=2        -> held
consume  c cpu 1 op=3                       -> confirmed
clock    10
hold     d gpu 3 ttl=30                     -> held
confirm  a gpu:1 keep_rest                  -> held
verify                                      -> ok
clock    20
resize   cpu total=9
sweep                                       -> done
verify                                      -> ok
restart
verify                                      -> ok
clock    71
sweep                                       -> done
expect hold a                               -> hold_retired
verify                                      -> ok
expect pools                                -> cpu gpu
expect pool gpu                             -> held=0 consumed=1
expect pool cpu                             -> held=0 consumed=1
