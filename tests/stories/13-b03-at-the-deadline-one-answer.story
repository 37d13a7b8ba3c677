# B3: at slot == deadline a release answers hold_expired, and another's hold is granted.
pool     gpu total=1
hold     a gpu 1 ttl=60                     -> held
clock    60
release  a                                  -> hold_expired
hold     b gpu 1 ttl=60                     -> held
