# A key that was let go is free at once, and can be looked up for the retention.
limits   retention=1000
claim hold a email alice@example.com ttl=300 -> held
release a reason=user_cancelled              -> released ended_slot=0
claim taken email alice@example.com          -> false
claim get email alice@example.com            -> released
release a                                    -> already_released
claim hold b email alice@example.com ttl=300 -> held fence=2
release b                                    -> released
clock    999
sweep                                        -> done
claim get email alice@example.com            -> released
clock    1000
sweep                                        -> done
claim get email alice@example.com            -> nothing
claim hold c email alice@example.com ttl=300 -> held fence=3
