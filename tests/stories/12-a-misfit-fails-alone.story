# A command that is well formed but does not fit its hold is invalid by itself; its neighbours stand, unless atomic.
pool     gpu total=5
pool     cpu total=5
hold     a gpu:1 cpu:1 ttl=60               -> held
batch
  hold     b gpu 1 ttl=60                   -> held
  confirm  a 1                              -> invalid code=amount_ambiguous
  hold     c gpu 1 ttl=60                   -> held
end
batch atomic
  hold     d gpu 1 ttl=60                   -> aborted
  confirm  a ram:1                          -> invalid code=leg_unknown
end
expect pool gpu                             -> held=3
expect hold a                               -> held
