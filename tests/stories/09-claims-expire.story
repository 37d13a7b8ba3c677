# At the deadline the key is free, with nobody sweeping; whoever comes late is told so.
claim hold a email alice@example.com ttl=300 -> held
clock    299
claim get email alice@example.com            -> held
clock    300
claim get email alice@example.com            -> expired ended_at=300
claim taken email alice@example.com          -> false
confirm a entity=user:7                      -> hold_expired
release a                                    -> hold_expired
claim hold b email alice@example.com ttl=300 -> held fence=2
confirm a entity=user:7                      -> hold_expired
confirm b entity=user:8                      -> confirmed entity=user:8
