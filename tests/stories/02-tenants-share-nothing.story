# Pools, holds, operation ids, reads and journal of a tenant are its own.
tenant   acme
pool     gpu total=1
hold     a gpu 1 ttl=60 op=job-1 id=@1 token=shared   -> held tenant=acme
tenant   globex
expect pool gpu                -> pool_not_found
hold     b gpu 1 ttl=60        -> pool_not_found
confirm  a                     -> hold_not_found
expect hold a                  -> hold_not_found
history  a                     -> nothing
journal                        -> nothing
pool     gpu total=5
hold     b gpu 4 ttl=60 op=job-1 id=@1 token=shared   -> held tenant=globex     # same names, other world
expect pools                   -> gpu
journal                        -> pool.created hold.held
tenant   none
expect pools                   -> nothing
tenant   acme
expect pool gpu                -> total=1 held=1
release  a                     -> released
tenant   globex
expect pool gpu                -> total=5 held=4
