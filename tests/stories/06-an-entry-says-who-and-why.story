# Actor, reason, correlation id, operation and effect are in the entry; what is said per call wins over the context.
context  actor=user:7 correlation_id=req-81 reason=checkout
pool     gpu total=5
hold     a gpu 2 ttl=60 op=op-1             -> held actor=user:7 correlation_id=req-81
clock    3
confirm  a actor=api_client:stripe reason=paid correlation_id=hook-1 -> confirmed reason=paid
context
return   a 1                                -> confirmed
entry    pool/gpu 1  -> pool.created actor=user:7 gpu.total=5 gpu.held=0 at=0
entry    a 1         -> hold.held actor=user:7 correlation_id=req-81 reason=checkout op=op-1 gpu.held=2 gpu.consumed=0 at=0 was=none forced=false
entry    a 2         -> hold.confirmed actor=api_client:stripe correlation_id=hook-1 reason=paid op=none gpu.held=-2 gpu.consumed=2 at=3 was=held
entry    a -1        -> hold.returned actor=none correlation_id=none gpu.held=0 gpu.consumed=-1 was=confirmed
