# A key is claimed, confirmed for an entity or let go; one owner at a time, and never two.
claim hold a email alice@example.com ttl=300 token=alice -> held deadline=300 fence=1 entity=none
claim hold b email alice@example.com ttl=300             -> already_claimed state=held remaining=300 deadline=300 transient=true
clock    100
claim hold b email alice@example.com ttl=300 token=bob   -> already_claimed remaining=200
claim hold a email alice@example.com ttl=300 token=alice -> held replayed deadline=300 fence=1     # the same, not extended
claim taken email alice@example.com                      -> true
confirm a entity=user:7                                  -> confirmed entity=user:7
confirm a entity=user:8                                  -> already_confirmed
release a                                                -> already_confirmed
claim taken email alice@example.com                      -> true
clock    100000
claim hold b email alice@example.com ttl=300             -> already_claimed state=confirmed remaining=none deadline=none transient=false     # for ever
claim list entity=user:7                                 -> email:alice@example.com
claim get email alice@example.com                        -> confirmed entity=user:7 taken=true
