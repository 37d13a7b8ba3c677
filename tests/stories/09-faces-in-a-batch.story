# Keys and items in a batch: each command has its answer as a value, in the callers' own words, and may be retried.
pool     show total=3
items add seat:1 seat:2
batch op=req-1
  combine a show:1 key/email/x item/seat:1 ttl=60 -> held deadline=60
  combine b key/email/x ttl=60                    -> insufficient_capacity subject=email:x available=0
  combine b item/nowhere ttl=60                   -> pool_not_found subject=nowhere
  hold   c show 1 ttl=60                          -> held
end
batch op=req-1
  combine a show:1 key/email/x item/seat:1 ttl=60 -> held replayed
  combine b key/email/x ttl=60                    -> insufficient_capacity replayed
  combine b item/nowhere ttl=60                   -> pool_not_found replayed
  hold   c show 1 ttl=60                          -> held replayed
end
batch atomic
  combine d item/seat:2 ttl=60                    -> aborted
  combine e key/email/x ttl=60                    -> insufficient_capacity
end
items get seat:1 seat:2                           -> held available
claim taken email x                               -> true
confirm  a entity=order:9                         -> confirmed
batch
  combine b key/email/x ttl=60                    -> insufficient_capacity
  combine f item/seat:2 ttl=60                    -> held
end
claim get email x                                 -> confirmed entity=order:9
expect   pool show                                -> held=1 consumed=1
