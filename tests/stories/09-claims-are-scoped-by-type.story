# The same value can be claimed under different types; the id follows from the key alone, and case and spaces count.
claim reserve a email alice ttl=300                          -> held key=email:alice
claim reserve b username alice ttl=300                       -> held key=username:alice
claim reserve c username Alice ttl=300                       -> held key=username:Alice
claim reserve d username 'alice ' ttl=300                    -> held
claim reserve e link a:b:c ttl=300                           -> held type=link value=a:b:c
claim release a                                              -> released
claim reserve f email alice ttl=300                          -> held id=res_07628858fccd42970881496d806b45e8
claim find id=res_07628858fccd42970881496d806b45e8           -> held key=email:alice
