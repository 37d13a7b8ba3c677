# Just before its deadline a hold can still be confirmed, released and extended.
pool     gpu total=3
hold     a gpu 1 ttl=60        -> held
hold     b gpu 1 ttl=60        -> held
hold     c gpu 1 ttl=60        -> held
clock    59.999999
confirm  a                     -> confirmed
release  b                     -> released
extend   c by=0.000001         -> held deadline=60.000001
clock    60
expect hold c                  -> held
clock    60.000001
expect hold c                  -> expired
expect pool gpu                -> held=0 consumed=1 available=2
