# Whatever comes back without the owner's token is journaled as forced, with its reason; and what is dropped is nobody's doing.
limits   retention=100 retention_consumed=400
pool     show total=10
consume  a show 3 actor=user:7 correlation_id=c       -> confirmed
return   a 1 force reason=refund token=none           -> confirmed returned=1
entry    a -1                                         -> hold.returned forced=true reason=refund show.consumed=-1
clock    400
sweep                                                 -> done
entry    a -1                                         -> hold.retired forced=false actor=system correlation_id=c show.consumed=0 show.loose=2
return   pool/show 2 force reason=refund actor=user:9 -> done
entry    pool/show -1                                 -> pool.returned forced=true reason=refund actor=user:9 show.consumed=-2 show.loose=-2
items add s1
items hold b s1 ttl=60                                -> held
confirm b                                             -> confirmed
items free s1 reason=refund                           -> done
entry    b -1                                         -> hold.returned forced=true reason=refund
