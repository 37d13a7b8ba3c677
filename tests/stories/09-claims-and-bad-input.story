# Every code of the patterns that claims come from has its counterpart, and nothing is written.
claim hold a '' v ttl=300      -> invalid field=type code=type_required
claim hold a ' ' v ttl=300     -> invalid field=type code=type_required
claim hold a x*65 v ttl=300    -> invalid field=type code=type_too_long
claim hold a a:b v ttl=300     -> invalid field=type code=type_malformed
claim hold a t '' ttl=300      -> invalid field=value code=value_required
claim hold a t x*1025 ttl=300  -> invalid field=value code=value_too_long
claim hold a t \u0000 ttl=300  -> invalid field=value code=value_unprintable
claim hold a t v ttl=0.999     -> invalid field=ttl code=ttl_too_short
claim hold a t v ttl=-1        -> invalid field=ttl code=ttl_too_short
claim hold a t v ttl=86400.1   -> invalid field=ttl code=ttl_too_long
claim hold a t v ttl=nan       -> invalid field=ttl code=ttl_malformed
claim hold a t v ttl=soon      -> invalid field=ttl code=ttl_malformed
claim get                      -> invalid field=id code=id_required
claim get t v id=res_123       -> invalid field=id code=id_required
claim get a:b v                -> invalid field=type code=type_malformed
claim free a:b v reason=closed -> invalid field=type code=type_malformed
claim get id=res_123           -> invalid field=id code=id_malformed
journal                        -> nothing
claim hold a x*64 y*1024 ttl=1 -> held
claim hold b t v ttl=86400     -> held deadline=86400
confirm b entity=''            -> invalid field=entity code=entity_required
confirm b entity=x*257         -> invalid field=entity code=entity_too_long
confirm b entity=x*256         -> confirmed
