# What was refused changed nothing, so the journal says nothing of it.
pool     gpu total=1
hold     a gpu 1 ttl=60                     -> held
cursor   here
hold     b gpu 1 ttl=60                     -> insufficient_capacity
hold     b cpu 1 ttl=60                     -> pool_not_found
pool     gpu total=1                        -> pool_exists
resize   gpu total=0                        -> below_in_use
confirm  a 2                                -> quantity_exceeds_hold
release  a token=thief                      -> not_owner
expire   a                                  -> not_due
extend   a until=30                         -> held
resize   gpu total=1                        -> done
journal  after=here                         -> nothing
