# An offer that nobody confirms expires like any hold, and the next in line is served. Whoever waits too long is gone.
pool     show total=1
hold     a show 1 ttl=10                      -> held
join     b show 1 ttl=600 offer_ttl=5         -> waiting
join     c show 1 ttl=12 offer_ttl=5          -> waiting deadline=12
join     d show 1 ttl=600 offer_ttl=5         -> waiting
clock    10
sweep                                         -> done expired=1 holds=a
expect hold b                                 -> held deadline=15
clock    12
place    d                                    -> 1                       # c has waited until its deadline
expect hold c                                 -> expired ended_slot=12 held_slot=none
expect pool show                              -> waiting=1
release  c                                    -> hold_expired
extend   c by=60                              -> hold_expired
clock    15
confirm  b                                    -> hold_expired
expect hold d                                 -> held deadline=20 held_slot=15
history  b                                    -> waiting offered expired
history  c                                    -> waiting expired
clock    100
expire   d                                    -> expired ended_slot=20
expect pool show                              -> held=0 waiting=0 bookable=1
