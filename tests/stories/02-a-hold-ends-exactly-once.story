# Confirmed, released or expired: whichever comes first is the last word.
pool     gpu total=3
hold     a gpu 1 ttl=60        -> held
hold     b gpu 1 ttl=60        -> held
hold     c gpu 1 ttl=60        -> held

confirm  a                     -> confirmed ended_slot=0
confirm  a                     -> already_confirmed
release  a                     -> already_confirmed
extend   a by=10               -> already_confirmed
expire   a                     -> already_confirmed

release  b                     -> released ended_slot=0
confirm  b                     -> already_released
release  b                     -> already_released
extend   b by=10               -> already_released
expire   b                     -> already_released

clock    60
confirm  c                     -> hold_expired
release  c                     -> hold_expired
extend   c by=10               -> hold_expired
expire   c                     -> expired ended_slot=60

expect pool gpu                -> total=3 held=0 consumed=1 available=2
history  a                     -> held confirmed
history  b                     -> held released
history  c                     -> held expired
