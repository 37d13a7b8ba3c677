# B1: A holds until 1000, B until 3; at 20 B's units are free, before and after a restart alike.
pool     gpu total=10
hold     a gpu 5 ttl=1000                   -> held
hold     b gpu 5 ttl=3                      -> held
clock    20
restart
hold     c gpu 5 ttl=60                     -> held
expect pool gpu                             -> held=10
restart
expect hold a                               -> held
expect hold b                               -> expired
expect hold c                               -> held
