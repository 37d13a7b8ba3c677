# Units, keys and items in one hold: all of it or none, named as the caller named it, and ended together.
pool     show total=3
items add seat:1 seat:2
combine a show:2 key/email/x item/seat:1 ttl=60             -> held deadline=60
combine b show:2 key/email/x item/seat:1 item/seat:2 ttl=60 -> insufficient_capacity
expect   pool show                                          -> held=2
items get seat:2                                            -> available
combine b show:1 item/nowhere ttl=60                        -> pool_not_found subject=nowhere
combine b show:1 key/email/y key/email/y ttl=60             -> invalid field=legs code=pool_twice
claim taken email y                                         -> false
claim hold c email x ttl=60                                 -> already_claimed
items hold c seat:1                                         -> items_taken taken=seat:1
items confirm seat:1 token=me                               -> part_of_hold
items release seat:1 token=me                               -> part_of_hold
items free seat:1 reason=refund                             -> quantity_exceeds_consumed
claim free email x reason=closed                            -> part_of_hold
release  a token=thief                                      -> not_owner
confirm  a entity=order:9                                   -> confirmed entity=order:9
expect   pool show                                          -> consumed=2 available=1
items get seat:1                                            -> confirmed
items free seat:1 reason=refund                             -> part_of_hold
claim free email x reason=closed                            -> part_of_hold subject=email:x
claim get email x                                           -> confirmed entity=order:9
combine d show:1 key/email/z item/seat:2 ttl=60 op=req-1    -> held
combine d show:1 key/email/z item/seat:2 ttl=60 op=req-1    -> held replayed
combine e show:1 key/email/z item/seat:2 ttl=61 op=req-1    -> operation_conflict
clock    60
confirm  d                                                  -> hold_expired
items get seat:2                                            -> available
claim taken email z                                         -> false
expect   pool show                                          -> consumed=2 held=0 available=1
claim hold f email z ttl=60                                 -> held fence=3
