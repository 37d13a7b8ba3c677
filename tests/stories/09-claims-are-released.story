# A key that was let go is free at once, and can be looked up for the retention.
limits   retention=1000
claim reserve a email alice@example.com ttl=300              -> held
claim release a reason=user_cancelled                        -> released ended_slot=0
claim taken email alice@example.com                          -> false
claim find type=email value=alice@example.com                -> released
claim release a                                              -> already_released
claim reserve b email alice@example.com ttl=300              -> held fence=2
claim release b                                              -> released
clock    999
sweep                                                        -> done
claim find key=email:alice@example.com                       -> released
clock    1000
sweep                                                        -> done
claim find key=email:alice@example.com                       -> nothing
claim reserve c email alice@example.com ttl=300              -> held fence=3
