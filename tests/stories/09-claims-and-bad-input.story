# Every code of the patterns that claims come from has its counterpart, and nothing is written.
claim reserve a '' v ttl=300                                 -> invalid field=type code=type_required
claim reserve a ' ' v ttl=300                                -> invalid field=type code=type_required
claim reserve a x*65 v ttl=300                               -> invalid field=type code=type_too_long
claim reserve a a:b v ttl=300                                -> invalid field=type code=type_malformed
claim reserve a t '' ttl=300                                 -> invalid field=value code=value_required
claim reserve a t x*1025 ttl=300                             -> invalid field=value code=value_too_long
claim reserve a t \u0000 ttl=300                             -> invalid field=value code=value_unprintable
claim reserve a t v ttl=0.999                                -> invalid field=ttl code=ttl_too_short
claim reserve a t v ttl=-1                                   -> invalid field=ttl code=ttl_too_short
claim reserve a t v ttl=86400.1                              -> invalid field=ttl code=ttl_too_long
claim reserve a t v ttl=nan                                  -> invalid field=ttl code=ttl_malformed
claim reserve a t v ttl=soon                                 -> invalid field=ttl code=ttl_malformed
claim find                                                   -> invalid field=id code=id_required
claim find key=t:v entity=e                                  -> invalid field=id code=id_required
claim find key=nocolon                                       -> invalid field=key code=key_malformed
claim find id=res_123                                        -> invalid field=id code=id_malformed
journal                                                      -> nothing
claim reserve a x*64 y*1024 ttl=1                            -> held
claim reserve b t v ttl=86400                                -> held deadline=86400
claim confirm b entity=''                                    -> invalid field=entity code=entity_required
claim confirm b entity=x*257                                 -> invalid field=entity code=entity_too_long
claim confirm b entity=x*256                                 -> confirmed
