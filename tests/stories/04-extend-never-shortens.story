# Asking for an earlier deadline, or the same one, changes nothing and writes nothing.
pool     gpu total=1
hold     a gpu 1 ttl=60               -> held deadline=60
extend   a until=30                   -> held deadline=60 version=1
extend   a ttl=60                     -> held deadline=60 version=1
history  a                            -> held
extend   a until=90                   -> held deadline=90 version=2
clock    60
expect hold a                         -> held
hold     b gpu 1 ttl=1                -> insufficient_capacity
clock    90
hold     b gpu 1 ttl=1                -> held
