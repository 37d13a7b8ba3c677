# Hold and confirm in one step, with the ladder of a hold: for what needs no second thought.
limits   max_holds=3
pool     gpu total=2
consume  x mars 1                     -> pool_not_found
consume  x gpu 3                      -> insufficient_capacity requested=3 available=2 total=2
consume  a gpu 1 entity=order:1 id=@1 -> confirmed confirmed=1 held=0 entity=order:1 deadline=none
consume  x gpu 1 id=@1                -> hold_exists
confirm  a                            -> already_confirmed
consume  b gpu:1 side:2/2             -> confirmed side.confirmed=2
expect pool gpu                       -> held=0 consumed=2 available=0
expect pool side                      -> consumed=2
history  a                            -> held confirmed
hold     c gpu 1 ttl=60               -> insufficient_capacity
