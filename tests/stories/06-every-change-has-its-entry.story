# No state without its entry: each command appends exactly what it did, expiries and extensions included.
pool     gpu total=9
hold     a gpu:1 rate:1/5 ttl=60            -> held
extend   a by=10                            -> held
confirm  a gpu:1 keep_rest                  -> held
release  a                                  -> released
return   a gpu:1                            -> released
consume  b gpu 1                            -> confirmed
hold     c gpu 1 ttl=5                      -> held
clock    5
resize   gpu total=8
record   note 1 body='{}'                   -> done
sweep                                       -> done
journal  -> pool.created pool.created hold.held hold.extended hold.partly_confirmed hold.released hold.returned hold.held hold.confirmed hold.held hold.expired pool.resized record.put pool.removed
