# How a ttl is spelled, in which order legs are named and what the correlation id is make no other payload.
pool     gpu total=4
pool     cpu total=4
hold     a gpu:1 cpu:2 ttl=300 op=req-1                      -> held
hold     a cpu:2 gpu:1 ttl=5m op=req-1                       -> held replayed
hold     a cpu:2 gpu:1 ttl=300.0 op=req-1                    -> held replayed
hold     a cpu:2 gpu:1 ttl=300s op=req-1 correlation_id=c9   -> held replayed
batch
  hold   a gpu:1 cpu:2 ttl=5m op=req-1                       -> held replayed
end
expect pool gpu                                              -> held=1
expect pool cpu                                              -> held=2
