# Only the owner ends a claim: by the claim, by its ticket, or by its id with the token.
claim hold a email x ttl=300 token=me -> held
confirm a token=none entity=user:1    -> not_owner
confirm a token=thief entity=user:1   -> not_owner
release a token=thief                 -> not_owner
extend a token=me by=60               -> held deadline=360
extend a ttl=60                       -> held deadline=360      # never shortens
confirm a via=ticket entity=user:1    -> confirmed entity=user:1
return  a token=thief                 -> not_owner
claim free email x reason=''          -> invalid field=reason code=reason_required
claim free email x reason=closed      -> released entity=none
claim free email x reason=closed      -> not_confirmed       # it was freed once
claim free email y reason=closed      -> not_confirmed
claim list entity=user:1              -> nothing
claim hold b email x ttl=300          -> held fence=2
claim free email x reason=closed      -> not_confirmed       # it is only held
claim get email x                     -> held
tenant   acme
claim get email x                     -> nothing
claim hold c email x ttl=300          -> held
