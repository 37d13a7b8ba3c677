# No room to remember an operation: it is not begun. That says nothing of earlier ones, and later it may succeed.
limits   max_operations=2 retry_window=100
pool     gpu total=4
hold     a gpu 1 ttl=500 op=req-1           -> held
hold     b gpu 1 ttl=500 op=req-2           -> held
hold     c gpu 1 ttl=500 op=req-3           -> operation_table_full subject=req-3 transient=true
hold     a gpu 1 ttl=500 op=req-1           -> held replayed
hold     x gpu 2 ttl=500 op=req-1           -> operation_conflict
hold     c gpu 1 ttl=500                    -> held              # without an id it needs no room
expect pool gpu                             -> held=3
clock    100
hold     d gpu 1 ttl=500 op=req-3           -> held
hold     d gpu 1 ttl=500 op=req-3           -> held replayed
