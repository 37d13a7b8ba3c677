# B6 and B17: a confirm long after the deadline, with no sweep in between, answers hold_expired and consumes nothing.
pool     gpu total=1
hold     a gpu 1 ttl=60                     -> held
clock    1000000
confirm  a                                  -> hold_expired
expect pool gpu                             -> held=0 consumed=0 available=1
