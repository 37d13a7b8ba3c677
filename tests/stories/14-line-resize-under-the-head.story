# Whoever asks for more than a lowered total blocks nobody, keeps its place, and is served when the total allows it again.
pool     show total=4
hold     a show 2 ttl=60                      -> held
join     b show 4 ttl=600 offer_ttl=30        -> waiting
join     c show 5 ttl=600 offer_ttl=30        -> insufficient_capacity requested=5 available=2 total=4
join     c show 1 ttl=600 offer_ttl=30        -> waiting
expect pool show                              -> available=2 bookable=0
resize   show total=3
expect hold b                                 -> waiting
expect hold c                                 -> held
place    b                                    -> 1
expect pool show                              -> waiting=1 available=0
release  c                                    -> released
expect pool show                              -> waiting=1 available=1 bookable=1
hold     d show 1 ttl=60                      -> held                    # b cannot be served, and blocks nobody
release  d                                    -> released
release  a                                    -> released
resize   show total=4
expect hold b                                 -> held fence=4
resize   show total=6
hold     e show 2 ttl=60                      -> held
