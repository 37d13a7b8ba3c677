# A hold whose last part is released ends as released, whatever was confirmed before.
pool     seats total=3
hold     a seats 3 ttl=60             -> held
confirm  a 2 keep_rest                -> held
release  a                            -> released confirmed=2 held=0
expect pool seats                     -> held=0 consumed=2 available=1
history  a                            -> held partly_confirmed released
