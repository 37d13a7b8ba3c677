# A pool below another takes its units from every pool above too, all or nothing; each level that falls short is named.
pool     hall//stalls total=6                 -> pool_not_found subject=hall
pool     hall total=10 per_account=8
pool     hall//stalls total=6
pool     hall//balcony total=6                                            # together more than the hall has
expect pool hall                              -> children=2
hold     a hall//stalls 6 ttl=60 account=c:1  -> held quantity=6
expect pool hall                              -> held=6 available=4
expect pool hall//balcony                     -> held=0 available=6 bookable=4
hold     b hall//balcony 5 ttl=60 account=c:2 -> insufficient_capacity subject=hall short=hall:5/4
hold     b hall//balcony:7 ttl=60 account=c:2 -> insufficient_capacity short=hall//balcony:7/6,hall:7/4
hold     b hall//balcony 1 ttl=60             -> account_required subject=hall
hold     b hall//balcony 3 ttl=60 account=c:1 -> account_limit subject=hall requested=3 used=6 limit=8
hold     b hall//balcony 4 ttl=60 account=c:2 -> held                     # parent full from now on
expect pool hall//balcony                     -> available=2 bookable=0
hold     c hall//balcony 1 ttl=60 account=c:3 -> insufficient_capacity short=hall:1/0
hold     c hall 1 ttl=60 account=c:3          -> insufficient_capacity
usage    c:2                                  -> hall:4/8 hall//balcony:4/none
release  a 2                                  -> held
hold     c hall//balcony:1 hall:1 ttl=60 account=c:3 -> held              # a named pool and one below it: summed
expect pool hall                              -> held=10
entry    c 1                                  -> hold.held hall.held=2 hall//balcony.held=1 hall.used=2
clock    60
expect pool hall                              -> held=0 available=10 bookable=10
expect pool hall//balcony                     -> held=0 available=6 bookable=6
hold     d hall//balcony 6 ttl=60 account=c:2 -> held                     # the deadline has freed all of its levels
usage    c:3                                  -> nothing
usage    c:2                                  -> hall:6/8 hall//balcony:6/none
sweep                                         -> done
verify                                        -> ok
