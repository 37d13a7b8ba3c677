# A clock that is set back leaves nobody more time than was granted: what is told goes by the later of clock and pool.
clock    1000
claim hold a email alice@example.com ttl=60 -> held held_slot=1000 deadline=1060
clock    100
claim hold b email alice@example.com ttl=60 -> already_claimed remaining=60 deadline=1060
claim get email alice@example.com           -> held
clock    1010
claim hold b email alice@example.com ttl=60 -> already_claimed remaining=50

# A hold whose deadline has come is expired in its history too, before anybody has touched its pool.
pool     p total=1
hold     h p 1 ttl=60                       -> held held_slot=1010
clock    1070
history  h                                  -> held
expect hold h                               -> expired ended_slot=1070
