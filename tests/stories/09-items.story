# Items are taken together or not at all; they are available, held or spent, and only their owner ends that.
items add seat:1 seat:2 seat:3 seat:4
items add seat:4
items states seat:4 seat:1 nowhere                           -> available available missing
items reserve a seat:2 seat:1 token=saga-77                  -> held deadline=none
items reserve b seat:3 seat:2 seat:1                         -> items_taken taken=seat:1,seat:2 transient=true
items states seat:1 seat:2 seat:3                            -> held held available
items reserve b seat:3 nowhere                               -> pool_not_found subject=nowhere
items release a token=thief                                  -> not_owner
items reserve b seat:3 ttl=60                                -> held deadline=60
items finalize a entity=order:9                              -> confirmed entity=order:9
items states seat:1 seat:2 seat:3                            -> spent spent held
clock    60
items states seat:3                                          -> available
items finalize b                                             -> hold_expired
items reserve c seat:3                                       -> held
items release c via=ticket                                   -> released
items reserve d seat:1                                       -> items_taken
items reserve d                                              -> invalid field=items code=items_required
items reserve d seat:3 seat:3                                -> invalid field=items code=item_twice
items add ''                                                 -> invalid field=item code=item_required
