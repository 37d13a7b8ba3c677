# not_found, the other two ends, not_due; expiring an expired hold is a quiet no-op.
pool     gpu total=3
expire   @9                           -> hold_not_found
hold     a gpu 1 ttl=60               -> held
hold     b gpu 1 ttl=60               -> held
hold     c gpu 1 ttl=60               -> held
confirm  a                            -> confirmed
release  b                            -> released
expire   a                            -> already_confirmed
expire   b                            -> already_released
expire   c                            -> not_due deadline=60
clock    60
expire   c                            -> expired ended_slot=60
expire   c                            -> expired
restart
expire   c                            -> expired
history  c                            -> held expired
expect pool gpu                       -> held=0 consumed=1
