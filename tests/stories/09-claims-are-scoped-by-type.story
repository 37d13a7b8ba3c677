# The same value can be claimed under different types; the id follows from the key alone, and case and spaces count.
claim hold a email alice ttl=300                  -> held
claim hold b username alice ttl=300               -> held
claim hold c username Alice ttl=300               -> held
claim hold d username 'alice ' ttl=300            -> held
claim hold e link a:b:c ttl=300                   -> held
release a                                         -> released
claim hold f email alice ttl=300                  -> held
claim get id=res_07628858fccd42970881496d806b45e8 -> held key=email:alice
