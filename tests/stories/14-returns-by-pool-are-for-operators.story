# A return by pool asks for nobody's token: it must be forced, with a reason. A retry is answered once.
limits   retention=10 retention_consumed=20
pool     show total=3
consume  a show 3                           -> confirmed
clock    20
sweep                                       -> done
return   pool/show 1                        -> invalid field=force code=force_required
return   pool/show 1 force                  -> invalid field=reason code=reason_required
return   pool/gone 1 force reason=r         -> pool_not_found
return   pool/show 2 force reason=r op=o    -> done consumed=1 loose=1
return   pool/show 2 force reason=r op=o    -> done consumed=1 loose=1 replayed
return   pool/show 1 force reason=r op=o    -> operation_conflict
expect pool show                            -> consumed=1 loose=1 available=2
restart
expect pool show                            -> consumed=1 loose=1 available=2
return   pool/show 1 force reason=r         -> done consumed=0 loose=0
