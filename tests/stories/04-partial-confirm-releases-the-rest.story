# A confirm with less than is held confirms that, and gives the rest back.
pool     seats total=5
hold     a seats 5 ttl=60             -> held
confirm  a 2                          -> confirmed confirmed=2 held=0
expect pool seats                     -> held=0 consumed=2 available=3
confirm  a 1                          -> already_confirmed
history  a                            -> held confirmed
