# What the first page shows: a show of 500 seats, two of them held, extended, paid; another pair given up.
pool     show:42 total=500
hold     hold  show:42 2 ttl=5m actor=user:7 op=req-81f   -> held deadline=300
hold     hold  show:42 2 ttl=5m actor=user:7 op=req-81f   -> held replayed
hold     other show:42:2 ttl=900                          -> held deadline=900
extend   hold by=300                                      -> held deadline=600
confirm  hold entity=order:9                              -> confirmed entity=order:9
release  other reason=payment_failed                      -> released reason=payment_failed
expect pool show:42                                       -> total=500 held=0 consumed=2 available=498
expect holds entity=order:9                               -> hold
