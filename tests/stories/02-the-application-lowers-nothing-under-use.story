# A total cannot go below what is held and consumed; down to exactly that it can.
pool     gpu total=10
hold     a gpu 3 ttl=60        -> held
consume  b gpu 2               -> confirmed
resize   gpu total=4           -> below_in_use in_use=5
resize   gpu total=5           -> done total=5 available=0
hold     c gpu 1 ttl=60        -> insufficient_capacity available=0 total=5
release  a                     -> released
expect pool gpu                -> total=5 held=0 consumed=2 available=3
