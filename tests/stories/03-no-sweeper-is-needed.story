# Long after the deadline, with nobody sweeping, the answer is the same as at the deadline.
pool     gpu total=1
hold     a gpu 1 ttl=1         -> held
clock    86400
confirm  a                     -> hold_expired
hold     b gpu 1 ttl=1         -> held
clock    172800
hold     c gpu 1 ttl=1         -> held
expect hold b                  -> expired ended_slot=86401
history  b                     -> held expired
