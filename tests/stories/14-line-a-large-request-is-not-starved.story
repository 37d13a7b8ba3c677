# A request for three waits for three: two free units are kept for it, whoever stands behind it.
pool     show total=3
consume  a show 1                             -> confirmed
hold     x show 2 ttl=100                     -> held
join     b show 3 ttl=600 offer_ttl=30        -> waiting
join     c show 1 ttl=600 offer_ttl=30        -> waiting
release  x                                    -> released
expect pool show                              -> available=2 waiting=2 bookable=0
hold     d show 1 ttl=60                      -> line_ahead waiting=2
return   a                                    -> confirmed
expect hold b                                 -> held
expect hold c                                 -> waiting
release  b                                    -> released
expect hold c                                 -> held
