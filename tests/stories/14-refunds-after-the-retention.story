# What was consumed can be returned by its hold long after the retention; when that is dropped, by its pool. Never twice.
limits   retention=100 retention_consumed=400
pool     show total=10
consume  a show 3                           -> confirmed
consume  b show 2                           -> confirmed
clock    300
sweep                                       -> done
expect hold a                               -> confirmed
return   pool/show 1 force reason=refund    -> quantity_exceeds_consumed requested=1 loose=0 consumed=5
return   a 1 force reason=refund token=none -> confirmed returned=1
return   a 1 token=none                     -> not_owner
return   a 1 force token=none               -> invalid field=reason code=reason_required
clock    400
expect hold b                               -> confirmed             # there until somebody drops it
sweep                                       -> done
expect hold b                               -> hold_retired
return   b                                  -> hold_retired
history  b                                  -> held confirmed retired
expect pool show                            -> consumed=4 loose=2
return   a 1                                -> confirmed             # its last change was at 300
return   pool/show 3 force reason=refund    -> quantity_exceeds_consumed requested=3 loose=2 consumed=3
return   pool/show 2 force reason=refund    -> done consumed=1 loose=0
history  pool/show                          -> created hold.held hold.confirmed hold.held hold.confirmed hold.returned hold.retired hold.returned returned
return   pool/show 1 force reason=refund    -> quantity_exceeds_consumed loose=0 consumed=1
clock    799
sweep                                       -> done
expect hold a                               -> confirmed
clock    800
sweep                                       -> done
batch atomic
return   pool/show 1 force reason=refund op=refund-1 -> done
hold     c show 10 ttl=60                   -> held
end
return   pool/show 1 force reason=refund    -> quantity_exceeds_consumed consumed=0
