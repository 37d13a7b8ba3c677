# A pool that was swept away and made again never hands out an old fence.
hold     a lock:1/1 ttl=10                  -> held fence=1
release  a                                  -> released
hold     b lock:1/1 ttl=10                  -> held fence=2
release  b                                  -> released
sweep                                       -> done
expect pool lock                            -> pool_not_found
restart
hold     c lock:1/1 ttl=10                  -> held fence=3
pool     other total=1
hold     d other 1 ttl=10                   -> held fence=3
