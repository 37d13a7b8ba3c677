# With an operation id the same call gives the same answer, token included; with an owner, the same claim.
claim reserve a email x ttl=300 op=r1                        -> held
claim reserve a email x ttl=300 op=r1                        -> held replayed
claim reserve b email x ttl=300 op=r2                        -> already_claimed remaining=300
claim release a                                              -> released
claim reserve b email x ttl=300 op=r2                        -> already_claimed replayed
claim reserve b email x ttl=300 op=r3                        -> held
claim confirm b entity=user:1 op=c1                          -> confirmed
claim confirm b entity=user:1 op=c1                          -> confirmed replayed
claim confirm b entity=user:2 op=c1                          -> operation_conflict
claim reserve c email y ttl=300 token=carol                  -> held
claim release c op=l1                                        -> released
claim release c via=ticket op=l1                             -> released replayed      # however the claim is named
claim release c via=id token=carol op=l1                     -> released replayed
