# A sweep by one tenant expires what is due of all, and tells the tenant of its own holds only.
tenant   acme
pool     gpu total=2
hold     a gpu 1 ttl=10                     -> held
tenant   globex
pool     gpu total=2
hold     b gpu 1 ttl=20                     -> held
hold     c gpu 1 ttl=5                      -> held
clock    60
sweep    limit=2                            -> done expired=1 holds=c tenants=globex more=true
sweep                                       -> done expired=1 holds=b tenants=globex more=false
sweep                                       -> done expired=0 holds=none tenants=none
history  b                                  -> held expired
tenant   acme
history  a                                  -> held expired
sweep                                       -> done expired=0 holds=none
