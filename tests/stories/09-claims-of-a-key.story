# A key is claimed, confirmed for an entity or let go; one owner at a time, and never two.
claim reserve a email alice@example.com ttl=300 token=alice  -> held key=email:alice@example.com deadline=300 fence=1 entity=none
claim reserve b email alice@example.com ttl=300              -> already_claimed state=held remaining=300 deadline=300 transient=true
clock    100
claim reserve b email alice@example.com ttl=300 token=bob    -> already_claimed remaining=200
claim reserve a email alice@example.com ttl=300 token=alice  -> held replayed deadline=300 fence=1     # the same, not extended
claim taken email alice@example.com                          -> true
claim confirm a entity=user:7                                -> confirmed entity=user:7 type=email value=alice@example.com
claim confirm a entity=user:8                                -> already_confirmed
claim release a                                              -> already_confirmed
claim taken email alice@example.com                          -> true
clock    100000
claim reserve b email alice@example.com ttl=300              -> already_claimed state=confirmed remaining=none deadline=none transient=false     # for ever
claim find entity=user:7                                     -> confirmed key=email:alice@example.com
