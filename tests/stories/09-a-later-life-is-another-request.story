# An operation id that was used in an earlier life of an item or a key is refused in a later one: the answer would be about the earlier.
items add s1 s2 s3
items hold a s1 s2 token=me            -> held
items confirm s2 s1 token=me op=pay    -> confirmed
items confirm s1 s2 token=me op=pay    -> confirmed replayed
items free s1 s2 reason=refund         -> done
items confirm s1 s2 token=me op=pay    -> confirmed replayed      # no later life has begun
items hold b s1 token=you ttl=60       -> held
items confirm s1 s2 token=me op=pay    -> confirmed replayed      # the later life is of another token
release b                              -> released
items hold c s1 s3 token=me            -> held
items confirm s1 s2 token=me op=pay    -> operation_conflict      # one of the items is only held
items get s1 s2 s3                     -> held available held
items release s3 s1 token=me op=drop   -> released
items release s3 s1 token=me op=drop   -> released replayed
items hold d s1 s3 token=me            -> held
items release s1 s3 token=me op=drop   -> operation_conflict
items get s1 s3                        -> held held
items release s1 s3 token=me op=drop-2 -> released

claim hold e email x ttl=300 token=me  -> held
confirm e entity=user:1 op=sign-up     -> confirmed
claim free email x reason=closed       -> released
claim hold f email x ttl=300 token=me  -> held
confirm f entity=user:1 op=sign-up     -> operation_conflict
confirm e entity=user:1 op=sign-up     -> confirmed replayed      # the hold says which life is meant
claim get email x                      -> held
