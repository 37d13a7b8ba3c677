# The same three, then deadline_passed, then lifetime_exceeded; refused, not clamped.
limits   max_lifetime=100
pool     gpu total=3
extend   @9 token=me by=10            -> hold_not_found
hold     a gpu 1 ttl=60               -> held deadline=60
extend   a by=10 token=thief          -> not_owner
extend   a by=10                      -> held deadline=70
clock    20
extend   a until=20                   -> deadline_passed now=20
extend   a until=100.000001           -> lifetime_exceeded max_lifetime=100
extend   a by=31                      -> lifetime_exceeded
extend   a ttl=81                     -> lifetime_exceeded
expect hold a                         -> held deadline=70
extend   a ttl=80                     -> held deadline=100
hold     b gpu 1 deadline=120.000001  -> lifetime_exceeded
release  a                            -> released
extend   a by=1                       -> already_released
history  a                            -> held extended extended released
