# A command returns the due legs of the pools it names, and of no other; the rest follow when touched or swept.
pool     gpu total=1
pool     cpu total=1
pool     ram total=1
hold     a gpu:1 cpu:1 ram:1 ttl=10   -> held
clock    10
hold     b gpu 1 ttl=60        -> held
history  a                     -> held expired
entry    a -1                  -> hold.expired gpu.held=-1 actor=system at=10
hold     c cpu 1 ttl=60        -> held
history  a                     -> held expired leg.returned
sweep                          -> done expired=0 more=false
history  a                     -> held expired leg.returned leg.returned
expect pool ram                -> held=0 available=1
expect hold a                  -> expired ended_slot=10 gpu.held=0 cpu.held=0 ram.held=0
