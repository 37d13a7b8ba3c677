# Who asks, and why, is no part of what is asked: another worker may retry, and the entry names the one who was first.
pool     gpu total=4 actor=user:7 reason=setup op=setup
pool     gpu total=4 actor=job:retry op=setup               -> done replayed
hold     a gpu 2 ttl=60 op=req-1 actor=user:7 reason=checkout -> held
hold     a gpu 2 ttl=60 op=req-1 actor=job:retry            -> held replayed     # the same hold, with the same token
hold     a gpu 2 ttl=60 op=req-1 reason=again               -> held replayed
restart
confirm  a op=req-2 actor=user:7 reason=paid                -> confirmed
confirm  a op=req-2 actor=job:retry reason=again            -> confirmed replayed
return   a 1 op=req-3 actor=user:7 reason=refund            -> confirmed returned=1
return   a 1 op=req-3                                       -> confirmed returned=1 replayed
batch op=req-4
  hold   b gpu 1 ttl=60 actor=user:7 reason=one              -> held
end
batch op=req-4
  hold   b gpu 1 ttl=60 actor=job:retry reason=two           -> held replayed
end
expect hold a                                               -> confirmed actor=user:7
expect pool gpu                                             -> held=1 consumed=1
history  a                                                  -> held confirmed returned
