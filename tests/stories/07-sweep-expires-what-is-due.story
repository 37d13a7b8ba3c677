# The sweep ends due holds wholly, on every pool at once, and says how many and which; a second one finds nothing.
pool     gpu total=4
pool     cpu total=4
hold     a gpu:1 cpu:1 ttl=10               -> held
hold     b gpu:1 cpu:1 ttl=20               -> held
hold     c gpu:1 cpu:1 ttl=30               -> held
clock    20
sweep                                       -> done expired=2 holds=a,b more=false scanned_at=20
sweep                                       -> done expired=0 holds=none more=false
expect pool gpu                             -> held=1
expect pool cpu                             -> held=1
expect hold c                               -> held
history  a                                  -> held expired
entry    b -1                               -> hold.expired gpu.held=-1 cpu.held=-1 actor=system
