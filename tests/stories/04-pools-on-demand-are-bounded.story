# A pool that a leg brings along counts against the bound like any other.
limits   max_pools=2
pool     gpu total=5
hold     a one:1/1 ttl=60             -> held
hold     b two:1/1 ttl=60             -> pool_table_full transient=true
hold     b gpu:1 two:1/1 ttl=60       -> pool_table_full
expect pool gpu                       -> held=0
hold     b gpu:1 ttl=60               -> held
release  a                            -> released
sweep                                 -> done                 # the empty pool goes
hold     c two:1/1 ttl=60             -> held
