# A confirmed key is freed by its owner, by force, or, when its hold was dropped, for a reason.
limits   retention=100 retention_consumed=400
claim reserve a email x ttl=60              -> held
claim confirm a entity=user:7               -> confirmed
claim reserve b email y ttl=60              -> held
claim confirm b entity=user:7               -> confirmed
clock    300
sweep                                       -> done
claim forget a via=id token=none            -> not_owner
claim forget a via=id token=none force reason=closed -> released
claim taken email x                         -> false
clock    400
sweep                                       -> done
claim find key=email:y                      -> confirmed entity=user:7
claim forget b via=id                       -> invalid field=reason code=reason_required
claim forget b via=id reason=closed         -> released
claim taken email y                         -> false
claim reserve c email y ttl=60              -> held
claim confirm c entity=user:8               -> confirmed
claim reserve d email y ttl=60              -> already_claimed
