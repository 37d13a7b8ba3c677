# With an operation id the same call gives the same answer, token included; with an owner, the same claim.
claim hold a email x ttl=300 op=r1       -> held
claim hold a email x ttl=300 op=r1       -> held replayed
claim hold b email x ttl=300 op=r2       -> already_claimed remaining=300
release a                                -> released
claim hold b email x ttl=300 op=r2       -> already_claimed replayed
claim hold b email x ttl=300 op=r3       -> held
confirm b entity=user:1 op=c1            -> confirmed
confirm b entity=user:1 op=c1            -> confirmed replayed
confirm b entity=user:2 op=c1            -> operation_conflict
claim hold c email y ttl=300 token=carol -> held
release c op=l1                          -> released
release c via=ticket op=l1               -> released replayed      # however the hold is named
release c token=carol op=l1              -> released replayed
