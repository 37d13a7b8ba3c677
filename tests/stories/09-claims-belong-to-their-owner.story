# Only the owner ends a claim: by the claim, by its ticket, or by its id with the token.
claim reserve a email x ttl=300 token=me                     -> held
claim confirm a via=id entity=user:1                         -> not_owner
claim confirm a via=id token=thief entity=user:1             -> not_owner
claim release a token=thief                                  -> not_owner
claim extend  a via=id token=me by=60                        -> held deadline=360
claim extend  a ttl=60                                       -> held deadline=360      # never shortens
claim confirm a via=ticket entity=user:1                     -> confirmed entity=user:1
claim forget  a via=id token=thief                           -> not_owner
claim forget  a via=id token=me                              -> released entity=none
claim forget  a                                              -> not_confirmed       # it was freed once
claim find entity=user:1                                     -> nothing
claim reserve b email x ttl=300                              -> held fence=2
claim forget  b                                              -> not_confirmed
claim find key=email:x                                       -> held token=none ticket=none
tenant   acme
claim find key=email:x                                       -> nothing
claim reserve c email x ttl=300                              -> held
