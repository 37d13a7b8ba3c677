# deadline_passed, pool_not_found (first leg in order), hold_exists, hold_table_full, insufficient_capacity: the first wins.
limits   max_holds=2
pool     gpu total=2
clock    100
hold     x moon:1 gpu:9 deadline=100 id=@1           -> deadline_passed
hold     x moon:1 mars:1 gpu:9 ttl=60 id=@1          -> pool_not_found subject=moon
hold     x mars:1 moon:1 gpu:9 ttl=60 id=@1          -> pool_not_found subject=mars
hold     a gpu 1 ttl=60 id=@1                        -> held
hold     b gpu 1 ttl=60                              -> held
hold     x gpu 9 ttl=60 id=@1                        -> hold_exists transient=false
hold     x gpu 9 ttl=60 id=@2                        -> hold_table_full transient=true
release  b                                           -> released
hold     x gpu 9 ttl=60 id=@2                        -> insufficient_capacity requested=9 available=1 total=2 transient=true
hold     c gpu 1 ttl=60 id=@2                        -> held
expect pool gpu                                      -> held=2 available=0
