# A caller's own id is a retry key by itself; an ended hold keeps its id until it retires.
limits   retention=100
pool     gpu total=2
hold     a gpu 1 ttl=60 id=@7 token=me                -> held
hold     x gpu 1 ttl=60 id=@7 token=me                -> hold_exists
hold     x gpu 1 ttl=60 id=00000000-0000-0000-0000-000000000007 token=me   -> hold_exists
release  a                                            -> released
hold     x gpu 1 ttl=60 id=@7 token=me                -> hold_exists
clock    100
expect hold a                                         -> hold_not_found     # the caller's own id does not tell its age
hold     a gpu 1 ttl=60 id=@7 token=me                -> held held_slot=100
history  a                                            -> held released held
expect pool gpu                                       -> held=1
