# Every grant on a pool has a higher fence than all before it, refused or released ones notwithstanding.
pool     gpu total=1
pool     cpu total=5
hold     a gpu 1 ttl=60                     -> held fence=1
hold     x gpu 1 ttl=60                     -> insufficient_capacity
release  a                                  -> released fence=1
hold     b gpu 1 ttl=60                     -> held fence=2
restart
clock    60
hold     c gpu:1 cpu:1 ttl=60               -> held fence=3
hold     d cpu 1 ttl=60                     -> held fence=4          # higher than c on the pool they share
consume  e cpu 1                            -> confirmed fence=5
expect pool gpu                             -> fence=3
expect pool cpu                             -> fence=5
