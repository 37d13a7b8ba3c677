# An operation id belongs to one payload; any other under it is a conflict, and does nothing.
pool     gpu total=4
hold     a gpu 1 ttl=60 op=req-1 actor=user:7      -> held
hold     x gpu 2 ttl=60 op=req-1 actor=user:7      -> operation_conflict subject=req-1 transient=false
hold     x gpu 1 ttl=61 op=req-1 actor=user:7      -> operation_conflict
hold     x gpu 1 ttl=60 op=req-1 actor=user:7 entity=order:1 -> operation_conflict
confirm  a op=req-1                                -> operation_conflict
resize   gpu total=9 op=req-1                      -> operation_conflict
hold     a gpu 1 ttl=60 op=req-1 actor=user:7      -> held replayed
expect pool gpu                                    -> total=4 held=1
