# With atomic all of them are applied or none, and the others answer aborted.
pool     gpu total=2
hold     z gpu 1 ttl=60                      -> held
cursor   before
batch atomic
  hold     a gpu 1 ttl=60                    -> aborted transient=true
  confirm  z                                 -> aborted
  record   note 1 body='{}'                  -> aborted
  hold     b gpu 1 ttl=60                    -> insufficient_capacity
  pool     cpu total=1                       -> aborted
end
expect pool gpu                              -> held=1 consumed=0
expect hold z                                -> held
expect record note 1                         -> nothing
expect pool cpu                              -> pool_not_found
journal  after=before                        -> nothing
batch atomic
  hold     a gpu 1 ttl=60                    -> held
  confirm  z                                 -> confirmed
  record   note 1 body='{}'                  -> done version=1
end
expect pool gpu                              -> held=1 consumed=1
journal  after=before                        -> hold.held hold.confirmed record.put
