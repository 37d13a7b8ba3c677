# B4: the operation table is full; a confirm works all the same.
limits   max_operations=1
pool     gpu total=1
hold     a gpu 1 ttl=60 op=one              -> held
resize   gpu total=2 op=two                 -> operation_table_full
confirm  a op=three                         -> confirmed
