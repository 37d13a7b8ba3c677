# What was consumed can come back: not_owner, not_confirmed, quantity_exceeds_hold; the hold stays confirmed.
pool     gpu total=5
return   @9 token=me                  -> hold_not_found
hold     a gpu 4 ttl=60               -> held
return   a token=thief                -> not_owner
return   a                            -> not_confirmed
confirm  a 3                          -> confirmed confirmed=3
return   a 4                          -> quantity_exceeds_hold left=3
return   a 1 reason='order cancelled' -> confirmed confirmed=3 returned=1 reason='order cancelled'
expect pool gpu                       -> held=0 consumed=2 available=3
return   a                            -> confirmed returned=3
return   a                            -> quantity_exceeds_hold left=0
expect pool gpu                       -> consumed=0 available=5
hold     b gpu 1 ttl=60               -> held
release  b                            -> released
return   b                            -> not_confirmed
history  a                            -> held confirmed returned returned
