# While anybody waits, whatever else would take units is refused: holds, consumption, one leg of several, overage, a pool below.
pool     show total=4
pool     hall total=9
pool     show//balcony total=4
hold     a show 3 ttl=60                      -> held
join     b show 3 ttl=600 offer_ttl=30        -> waiting
hold     c show 1 ttl=60                      -> line_ahead subject=show waiting=1 transient=true
hold     c show 2 ttl=60                      -> insufficient_capacity short=show:2/1
consume  c show 1                             -> line_ahead
hold     c hall:1 show:1 ttl=60               -> line_ahead subject=show
hold     c show//balcony 1 ttl=60             -> line_ahead subject=show
expect pool show//balcony                     -> available=4 bookable=0
expect pool show                              -> available=1 bookable=0
confirm  a 4 overage=if_available             -> line_ahead
join     c show 1 ttl=600 offer_ttl=30        -> waiting number=2         # a small request waits behind a large one
batch atomic
release  a 1                                  -> aborted
hold     d show 1 ttl=60                      -> line_ahead
end
expect hold a                                 -> held held=3
confirm  a 4 overage=up_to_available          -> confirmed confirmed=3 uncovered=1
expect pool show                              -> available=1 waiting=2
return   a                                    -> confirmed returned=3
expect hold b                                 -> held
expect hold c                                 -> held
hold     d show 1 ttl=60                      -> insufficient_capacity
