# Pools and holds are listed in order of id, page by page, narrowed by prefix, pool, state or entity.
pool     b total=9
pool     a2 total=9
pool     a1 total=9
expect pools                                -> a1 a2 b
expect pools prefix=a                       -> a1 a2
expect pools limit=2                        -> a1 a2
expect pools after=a2                       -> b
expect pools prefix=zz                      -> nothing
hold     one   b 1 ttl=60 id=@1             -> held
hold     two   b:1 a1:1 ttl=60 id=@2 entity=order:1   -> held
hold     three a1 1 ttl=60 id=@3            -> held
confirm  one entity=order:1                 -> confirmed
release  three                              -> released
expect holds                                -> one two three
expect holds pool=b                         -> one two
expect holds pool=a1                        -> two three
expect holds state=held                     -> two
expect holds entity=order:1                 -> one two
expect holds entity=order:1 state=confirmed -> one
expect holds limit=2                        -> one two
expect holds after=two                      -> three
