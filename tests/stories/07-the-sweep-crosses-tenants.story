# One sweep serves everybody; each expiry is in its own tenant's journal.
tenant   acme
pool     gpu total=1
hold     a gpu 1 ttl=10                     -> held
tenant   globex
pool     gpu total=1
hold     b gpu 1 ttl=20                     -> held
tenant   none
clock    60
sweep                                       -> done expired=2 holds=a,b tenants=acme,globex
journal                                     -> nothing
tenant   acme
journal                                     -> pool.created hold.held hold.expired
tenant   globex
history  b                                  -> held expired
