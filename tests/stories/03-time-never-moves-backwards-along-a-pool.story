# A clock that steps back does not bring the dead to life, nor shorten anything: the pool remembers its last slot.
pool     gpu total=2
hold     a gpu 1 ttl=10        -> held
clock    100
hold     b gpu 1 ttl=10        -> held deadline=110
clock    5
confirm  a                     -> hold_expired
hold     c gpu 1 ttl=10        -> held held_slot=100 deadline=110
expect hold b                  -> held
clock    110
expect pool gpu                -> held=0
