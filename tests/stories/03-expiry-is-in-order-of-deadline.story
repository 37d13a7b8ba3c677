# Due holds are expired in order of deadline, however late anybody looks; each at its own deadline.
pool     gpu total=3
hold     late  gpu 1 ttl=30    -> held
hold     early gpu 1 ttl=10    -> held
hold     mid   gpu 1 ttl=20    -> held
clock    100
sweep                          -> done expired=3
journal                        -> pool.created hold.held hold.held hold.held hold.expired hold.expired hold.expired
expect hold early              -> expired ended_slot=10
expect hold mid                -> expired ended_slot=20
expect hold late               -> expired ended_slot=30
