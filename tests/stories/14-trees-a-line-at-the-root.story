# Lines stand at roots. Units that come back below are offered to whoever waits at the root, and holds below do not overtake.
pool     hall total=4
pool     hall//left total=4
hold     a hall//left 3 ttl=20                -> held
join     b hall 2 ttl=600 offer_ttl=30        -> waiting
hold     c hall//left 1 ttl=60                -> line_ahead subject=hall waiting=1
confirm  a 1 keep_rest                        -> held
release  a 1                                  -> held
expect hold b                                 -> held
hold     c hall//left 1 ttl=60                -> insufficient_capacity short=hall:1/0
join     d hall 1 ttl=600 offer_ttl=30        -> waiting
clock    20
expect pool hall                              -> held=2 consumed=1 waiting=1 bookable=0
expect pool hall//left                        -> available=3 bookable=0
hold     c hall//left 1 ttl=60                -> insufficient_capacity short=hall:1/0
expect hold d                                 -> held held_slot=20
return   a                                    -> expired returned=1
expect pool hall                              -> available=1 bookable=1
