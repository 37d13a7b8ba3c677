# A confirmed key is freed by its name and for a reason, also when its hold was dropped.
limits   retention=100 retention_consumed=400
claim hold a email x ttl=60           -> held
confirm a entity=user:7               -> confirmed
claim hold b email y ttl=60           -> held
confirm b entity=user:7               -> confirmed
clock    300
sweep                                 -> done
return a token=none                   -> not_owner
claim free email x reason=closed op=o -> released
claim free email x reason=closed op=o -> released
claim taken email x                   -> false
clock    400
sweep                                 -> done
claim get email y                     -> confirmed entity=user:7
claim free email y reason=''          -> invalid field=reason code=reason_required
claim free email y reason=closed      -> released
claim taken email y                   -> false
claim hold c email y ttl=60           -> held
confirm c entity=user:8               -> confirmed
claim hold d email y ttl=60           -> already_claimed
