# Alive if and only if now < deadline: one microsecond before it everything works, at it nothing does.
pool     gpu total=2
hold     a   gpu 2 ttl=60      -> held deadline=60
clock    59.999999
hold     b   gpu 1 ttl=60      -> insufficient_capacity requested=1 available=0
expect hold a                  -> held
clock    60
expect hold a                  -> expired ended_slot=60
expect pool gpu                -> held=0 available=2
confirm  a                     -> hold_expired deadline=60
release  a                     -> hold_expired
extend   a by=60               -> hold_expired
hold     b   gpu 2 ttl=60      -> held
history  a                     -> held expired
