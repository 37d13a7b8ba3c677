# The answer to a retry is the one given then, even if the hold has moved on since.
pool     gpu total=1
hold     a gpu 1 ttl=60 op=req-1            -> held deadline=60
extend   a by=30 op=req-2                   -> held deadline=90
release  a                                  -> released
hold     a gpu 1 ttl=60 op=req-1            -> held replayed deadline=60
extend   a by=30 op=req-2                   -> held replayed deadline=90
expect hold a                               -> released
clock    100
hold     a gpu 1 ttl=60 op=req-1            -> held replayed deadline=60
