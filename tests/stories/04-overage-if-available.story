# The extra is taken in the same step, from every leg that needs it or from none.
pool     tokens total=100
pool     calls total=2
hold     a tokens:50 calls:1 ttl=60                        -> held
hold     b tokens:40 ttl=60                                -> held
confirm  a tokens:60 calls:3 overage=if_available          -> insufficient_capacity short=calls:2/1
confirm  a tokens:61 calls:3 overage=if_available          -> insufficient_capacity short=tokens:11/10,calls:2/1
expect hold a                                              -> held tokens.held=50 calls.held=1
confirm  a tokens:60 calls:2 overage=if_available          -> confirmed tokens.confirmed=60 calls.confirmed=2
expect pool tokens                                         -> held=40 consumed=60 available=0
expect pool calls                                          -> consumed=2 available=0
