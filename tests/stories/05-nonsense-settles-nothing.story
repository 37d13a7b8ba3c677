# A malformed call is not an answer: its operation id is still free.
pool     gpu total=2
hold     a gpu 0 ttl=60 op=req-1            -> invalid field=quantity
hold     a gpu:1 cpu:1 ttl=60 op=req-2      -> pool_not_found
hold     a gpu 1 ttl=60 op=req-1            -> held
confirm  a gpu:1 cpu:1 op=req-3             -> invalid code=leg_unknown
confirm  a op=req-3                         -> confirmed
hold     b gpu 1 ttl=60 op=x*256            -> invalid field=op code=op_too_long
hold     b gpu 1 ttl=60 op=x*255            -> held
