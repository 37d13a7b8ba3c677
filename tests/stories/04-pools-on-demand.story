# A leg may bring its pool along; if the command is refused, the pool is taken back too.
pool     gpu total=1
hold     a rate:3/10 ttl=60           -> held rate.held=3
expect pool rate                      -> total=10 held=3
hold     b rate:7/99 ttl=60           -> held                 # an existing pool keeps its total
hold     c rate:1/99 ttl=60           -> insufficient_capacity short=rate:1/0
hold     d quota:1/5 gpu:2 ttl=60     -> insufficient_capacity short=gpu:2/1
expect pool quota                     -> pool_not_found
hold     d quota:6/5 ttl=60           -> insufficient_capacity requested=6 available=5 total=5
expect pool quota                     -> pool_not_found
hold     d quota:1/5 mars:1 ttl=60    -> pool_not_found subject=mars
expect pool quota                     -> pool_not_found
hold     d quota:1/5 gpu:1 ttl=60     -> held
history  pool/quota                   -> created hold.held
expect pools                          -> gpu quota rate
