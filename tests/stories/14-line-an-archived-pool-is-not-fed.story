# Nothing is offered on an archived pool; its line waits, and is served when the pool is unarchived. A pool with a line stays.
pool     show total=1
hold     a show 1 ttl=60                      -> held
join     b show 1 ttl=600 offer_ttl=30        -> waiting
archive  show
release  a                                    -> released
expect hold b                                 -> waiting
expect pool show                              -> waiting=1 available=1 bookable=0
remove   show                                 -> pool_in_use
sweep                                         -> done
expect hold b                                 -> waiting
extend   b by=10                              -> waiting deadline=610
unarchive show
expect hold b                                 -> held deadline=30
