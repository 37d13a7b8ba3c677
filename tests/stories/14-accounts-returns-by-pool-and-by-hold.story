# Units whose hold has been dropped come back by pool, each account's own; those of kept holds come back by their hold. Never twice.
limits   retention=100 retention_consumed=400
pool     show total=10 per_account=9
consume  a show 3 account=c:7                 -> confirmed
consume  b show 2 force reason='box office'   -> confirmed
clock    100
consume  c show 1 account=c:7                 -> confirmed
return   pool/show 1 force reason=refund account=c:7 -> quantity_exceeds_consumed requested=1 loose=0
clock    400
sweep                                         -> done
expect hold a                                 -> hold_retired
expect hold c                                 -> confirmed
expect pool show                              -> consumed=6 loose=2    # of holds without an account
usage    c:7                                  -> show:4/9
return   pool/show 4 force reason=refund account=c:7 -> quantity_exceeds_consumed requested=4 loose=3
return   pool/show 3 force reason=refund      -> quantity_exceeds_consumed loose=2
return   pool/show 1 force reason=refund account=c:8 -> quantity_exceeds_consumed loose=0
return   pool/show 2 force reason=refund account=c:7 -> done loose=2 consumed=4
usage    c:7                                  -> show:2/9
return   c force reason=refund token=none     -> confirmed returned=1
usage    c:7                                  -> show:1/9
return   pool/show 2 force reason=refund      -> done loose=0 consumed=1
return   pool/show 1 force reason=refund account=c:7 -> done loose=0 consumed=0
usage    c:7                                  -> nothing
return   c account=c:7                        -> invalid field=account code=argument_unknown
