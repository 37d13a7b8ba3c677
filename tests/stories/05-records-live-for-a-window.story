# An operation id is remembered for the window; at age == window it is gone, and the id may be used anew.
limits   retry_window=100
pool     gpu total=4
hold     a gpu 1 ttl=500 op=req-1           -> held
clock    99.999999
hold     a gpu 1 ttl=500 op=req-1           -> held replayed
clock    100
hold     b gpu 2 ttl=500 op=req-1           -> held              # another hold, as if never heard of
hold     b gpu 2 ttl=500 op=req-1           -> held replayed
expect pool gpu                             -> held=3
