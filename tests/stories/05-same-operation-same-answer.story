# Same operation id and same payload: the recorded answer again, the token included, and nothing is applied twice.
pool     gpu total=4 op=setup
pool     gpu total=4 op=setup               -> done replayed total=4            # no pool_exists: it was this very request
hold     a gpu 2 ttl=60 op=req-1            -> held
hold     a gpu 2 ttl=60 op=req-1            -> held replayed     # the same hold, with the same token
restart
hold     a gpu 2 ttl=60 op=req-1            -> held replayed
expect pool gpu                             -> held=2 available=2
confirm  a op=req-2 entity=order:1          -> confirmed
confirm  a op=req-2 entity=order:1          -> confirmed replayed
return   a 1 op=req-3                       -> confirmed returned=1
return   a 1 op=req-3                       -> confirmed returned=1 replayed
expect pool gpu                             -> consumed=1
history  a                                  -> held confirmed returned
