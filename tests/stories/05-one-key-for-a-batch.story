# One operation id may stand for a whole batch: the same batch again is replayed, another one under the same id does nothing.
pool     gpu total=3
batch op=req-1
  hold   a gpu 2 ttl=60                     -> held
  hold   b gpu 2 ttl=60                     -> insufficient_capacity
end
batch op=req-1
  hold   a gpu 2 ttl=60                     -> held replayed
  hold   b gpu 2 ttl=60                     -> insufficient_capacity replayed
end
batch op=req-1                                                   # one more than before
  hold   a gpu 2 ttl=60                     -> operation_conflict subject=req-1
  hold   b gpu 2 ttl=60                     -> operation_conflict subject=req-1
  pool   cpu total=1                        -> operation_conflict subject=req-1
end
batch atomic op=req-1                                            # the same, all or none
  hold   a gpu 2 ttl=60
  hold   b gpu 2 ttl=60
end -> operation_conflict subject=req-1
pool     cpu total=1 op=req-1               -> operation_conflict
pool     cpu total=1 op=req-2               -> done
batch op=req-2                                                   # nor may a batch take the id of a single call
  confirm a                                 -> operation_conflict subject=req-2
end
batch atomic op=req-3
  confirm a                                 -> aborted
  hold   c gpu 2 ttl=60                     -> insufficient_capacity
end
resize   gpu total=9
batch atomic op=req-3                                            # a refusal is an answer, also of all together
  confirm a                                 -> aborted replayed
  hold   c gpu 2 ttl=60                     -> insufficient_capacity replayed
end
batch op=req-4
  confirm a op=mine                         -> confirmed           # a command may have an id of its own
end
confirm  a op=mine                          -> confirmed replayed
expect pool gpu                             -> total=9 held=0 consumed=2
