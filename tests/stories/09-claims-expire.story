# At the deadline the key is free, with nobody sweeping; whoever comes late is told so.
claim reserve a email alice@example.com ttl=300              -> held
clock    299
claim find key=email:alice@example.com active_only=true      -> held
clock    300
claim find key=email:alice@example.com                       -> expired ended_slot=300
claim find key=email:alice@example.com active_only=true      -> nothing
claim taken email alice@example.com                          -> false
claim confirm a entity=user:7                                -> hold_expired
claim release a                                              -> hold_expired
claim reserve b email alice@example.com ttl=300              -> held fence=2
claim confirm a entity=user:7                                -> hold_expired
claim confirm b entity=user:8                                -> confirmed entity=user:8
