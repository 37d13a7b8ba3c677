# available = total - held - consumed, after every command.
pool     room total=10
expect pool room               -> total=10 held=0 consumed=0 available=10
hold     a room 4 ttl=60       -> held
expect pool room               -> held=4 consumed=0 available=6
hold     b room 3 ttl=60       -> held
expect pool room               -> held=7 consumed=0 available=3
confirm  a                     -> confirmed
expect pool room               -> held=3 consumed=4 available=3
release  b                     -> released
expect pool room               -> held=0 consumed=4 available=6
consume  c room 6              -> confirmed
expect pool room               -> held=0 consumed=10 available=0
return   a 1                   -> confirmed
expect pool room               -> held=0 consumed=9 available=1 over=false
