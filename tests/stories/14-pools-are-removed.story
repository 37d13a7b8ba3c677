# pool_not_found, then pool_in_use: anything held or consumed. What is due comes back first; fences only grow.
remove   gpu                   -> pool_not_found subject=gpu
pool     gpu total=2
hold     a gpu 1 ttl=60        -> held fence=1
remove   gpu                   -> pool_in_use in_use=1 transient=false
clock    60
remove   gpu op=once           -> done total=2 held=0            # at the deadline nothing is in use
expect   pools                 -> nothing
hold     b gpu 1 ttl=60        -> pool_not_found
history  pool/gpu              -> created hold.held hold.expired removed
history  a                     -> held expired
pool     gpu total=1
remove   gpu op=once           -> done total=2 replayed
hold     b gpu 1 ttl=60        -> held fence=2
confirm  b                     -> confirmed
remove   gpu                   -> pool_in_use in_use=1
return   b                     -> confirmed
remove   gpu actor=user:7 reason=sold -> done
entry    pool/gpu -1           -> pool.removed actor=user:7 reason=sold
remove   ~x                    -> invalid field=id
restart
expect   pools                 -> nothing
verify                         -> ok
