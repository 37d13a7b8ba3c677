# Whoever waits in line is a hold without units. Units that become free are offered in the order of the line.
pool     show total=2
hold     a show 2 ttl=60                      -> held
join     b show 1 ttl=600 offer_ttl=30 entity=order:1 id=@2 -> waiting deadline=600 number=1 fence=0 held=0 quantity=1 held_slot=none joined_slot=0
join     c show 1 ttl=600 offer_ttl=30 id=@3  -> waiting number=2
join     d show 1 ttl=600 offer_ttl=30 id=@4  -> waiting number=3
expect pool show                              -> held=2 available=0 waiting=3 bookable=0
expect holds state=waiting                    -> b c d
place    b                                    -> 1
place    d                                    -> 3
place    d via=ticket                         -> 3
place    a                                    -> none
confirm  b                                    -> hold_waiting number=1 transient=true
return   b                                    -> not_confirmed
clock    10
release  a 1                                  -> held held=1
expect hold b                                 -> held deadline=40 fence=2 held=1 held_slot=10 joined_slot=0 number=1 entity=order:1
place    b                                    -> none
place    d                                    -> 2
clock    20
release  a                                    -> released
expect hold c                                 -> held deadline=50 fence=3
expect pool show                              -> held=2 waiting=1 available=0
confirm  b                                    -> confirmed
history  b                                    -> waiting offered confirmed
entry    b 1                                  -> hold.waiting at=0 show.waiting=1 show.held=0
entry    b 2                                  -> hold.offered at=10 actor=system was=waiting show.waiting=-1 show.held=1
extend   c by=60                              -> held deadline=110          # an offer is a hold like any other
release  c                                    -> released
expect hold d                                 -> held deadline=50
history  pool/show                            -> created hold.held hold.waiting hold.waiting hold.waiting hold.partly_released hold.offered hold.released hold.offered hold.confirmed hold.released hold.offered
follow   box-office                           -> pool.created hold.held hold.waiting hold.waiting hold.waiting hold.partly_released hold.offered hold.released hold.offered hold.confirmed hold.extended hold.released hold.offered
restart
expect pool show                              -> held=1 consumed=1 waiting=0 bookable=0
