# Items are taken together or not at all; they are available, held or spent, and only their owner ends that.
items add seat:1 seat:2 seat:3 seat:4
items add seat:4
items get seat:4 seat:1 nowhere          -> available available missing
items hold a seat:2 seat:1 token=saga-77 -> held deadline=none
items hold b seat:3 seat:2 seat:1        -> items_taken taken=seat:1,seat:2 transient=true
items get seat:1 seat:2 seat:3           -> held held available
items hold b seat:3 nowhere              -> pool_not_found subject=nowhere
release a token=thief                    -> not_owner
items hold b seat:3 ttl=60               -> held deadline=60
confirm a entity=order:9                 -> confirmed entity=order:9
items get seat:1 seat:2 seat:3           -> confirmed confirmed held
clock    60
items get seat:3                         -> available
confirm b                                -> hold_expired
items hold c seat:3                      -> held
release c via=ticket                     -> released
items hold d seat:1                      -> items_taken
items hold d                             -> invalid field=items code=items_required
items hold d seat:3 seat:3               -> invalid field=items code=item_twice
items add ''                             -> invalid field=item code=item_required
