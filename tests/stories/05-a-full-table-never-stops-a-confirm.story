# A full or pruned table never refuses a confirm or a release: the hold remembers the operation that ended it.
limits   max_operations=1 retry_window=100
pool     gpu total=4
hold     a gpu 1 ttl=500 op=req-1           -> held
hold     b gpu 2 ttl=500                    -> held
confirm  a op=pay-1                         -> confirmed
confirm  a op=pay-1                         -> confirmed replayed
confirm  a op=pay-1 entity=other            -> operation_conflict
confirm  a op=pay-2                         -> already_confirmed
release  b op=drop-1                        -> released
release  b op=drop-1                        -> released replayed
clock    200
confirm  a op=pay-1                         -> confirmed replayed     # long after the window
restart
release  b op=drop-1                        -> released replayed
history  a                                  -> held confirmed
history  b                                  -> held released
