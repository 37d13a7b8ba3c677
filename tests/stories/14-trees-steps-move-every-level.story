# Partial confirm, release, overage and return move all levels and tallies at once. Answers name the named pools only.
pool     hall total=10
pool     hall//left total=8
pool     hall//left//box total=4
hold     a hall//left//box:3 hall//left:1 hall:1 ttl=60 account=c:1 -> held
expect pool hall                              -> held=5
expect pool hall//left                        -> held=4
usage    c:1                                  -> hall:5/none hall//left:4/none hall//left//box:3/none
confirm  a hall//left//box:2 keep_rest        -> held hall//left//box.held=1 hall//left//box.confirmed=2 hall.held=1
expect pool hall                              -> held=3 consumed=2
expect pool hall//left                        -> held=2 consumed=2
expect pool hall//left//box                   -> held=1 consumed=2
release  a hall:1                             -> held hall.held=0
expect pool hall                              -> held=2 consumed=2
confirm  a hall//left//box:2 hall//left:1 overage=if_available -> confirmed hall//left//box.confirmed=4
expect pool hall                              -> held=0 consumed=5
expect pool hall//left                        -> held=0 consumed=5
expect pool hall//left//box                   -> held=0 consumed=4
hold     b hall//left//box 1 ttl=60           -> insufficient_capacity short=hall//left//box:1/0
return   a hall//left//box:3                  -> confirmed hall//left//box.returned=3
expect pool hall                              -> consumed=2
expect pool hall//left                        -> consumed=2
expect pool hall//left//box                   -> consumed=1
usage    c:1                                  -> hall:2/none hall//left:2/none hall//left//box:1/none
restart
return   a hall//left//box:1 hall//left:1     -> confirmed
usage    c:1                                  -> nothing
expect pool hall                              -> held=0 consumed=0
