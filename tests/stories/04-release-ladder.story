# As confirm, without overage; what is left over can be released in parts.
pool     gpu total=4
release  @9 token=me                  -> hold_not_found
hold     a gpu 3 ttl=60               -> held
release  a 9 token=thief              -> not_owner
release  a 4                          -> quantity_exceeds_hold left=3
release  a 1                          -> held held=2
expect pool gpu                       -> held=2 available=2
release  a 3                          -> quantity_exceeds_hold left=2
release  a 2 reason=user_cancelled    -> released reason=user_cancelled
release  a                            -> already_released
hold     b gpu 1 ttl=60               -> held
confirm  b                            -> confirmed
release  b                            -> already_confirmed
hold     c gpu 1 ttl=60               -> held
clock    60
release  c                            -> hold_expired
history  a                            -> held partly_released released
