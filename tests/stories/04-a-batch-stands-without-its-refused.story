# In a batch a refused command has no effect, and the others stand; each sees what the ones before it left.
pool     gpu total=2
batch
  hold     a gpu 1 ttl=60 id=@1 token=me     -> held
  hold     b gpu 2 ttl=60                    -> insufficient_capacity requested=2 available=1
  hold     c gpu 1 ttl=60                    -> held
  confirm  a token=me                        -> confirmed
  pool     gpu total=9                       -> pool_exists
  pool     cpu total=1
  hold     d cpu 1 ttl=60                    -> held
end
expect pool gpu                              -> held=1 consumed=1 available=0
expect pool cpu                              -> held=1
journal  -> pool.created hold.held hold.held hold.confirmed pool.created hold.held
