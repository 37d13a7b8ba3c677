# What was done stays done: a restart neither revives nor kills a hold.
pool     gpu total=3
hold     a gpu 1 ttl=60        -> held
hold     b gpu 1 ttl=10        -> held
hold     c gpu 1 ttl=60        -> held
confirm  c                     -> confirmed
clock    10
restart
expect hold a                  -> held deadline=60
expect hold b                  -> expired
expect hold c                  -> confirmed
confirm  a                     -> confirmed
restart
expect pool gpu                -> held=0 consumed=2 available=1
history  a                     -> held confirmed
