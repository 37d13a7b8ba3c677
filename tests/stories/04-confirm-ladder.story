# hold_not_found, not_owner, the three ends, quantity_exceeds_hold, and for overage insufficient_capacity.
pool     gpu total=4
confirm  @9 token=me                  -> hold_not_found
hold     a gpu 2 ttl=60               -> held
confirm  a 9 token=thief              -> not_owner subject=a
confirm  a 9 token=none               -> not_owner
confirm  a 3                          -> quantity_exceeds_hold left=2
confirm  a 3 overage=reject           -> quantity_exceeds_hold
confirm  a 5 overage=if_available     -> insufficient_capacity requested=3 available=2 total=4
expect hold a                         -> held held=2
confirm  a                            -> confirmed confirmed=2 held=0
confirm  a 9 token=thief              -> not_owner
confirm  a 9                          -> already_confirmed
hold     b gpu 1 ttl=60               -> held
release  b                            -> released
confirm  b 9                          -> already_released
hold     c gpu 1 ttl=60               -> held
clock    60
confirm  c 9 token=thief              -> not_owner
confirm  c 9                          -> hold_expired
