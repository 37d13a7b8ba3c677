# An absolute deadline does as well as an interval; it must lie in the future.
pool     gpu total=1
clock    50
hold     a gpu 1 deadline=50          -> deadline_passed now=50
hold     a gpu 1 deadline=0           -> deadline_passed
hold     a gpu 1 deadline=50.000001   -> held deadline=50.000001
clock    +0.000001
expect hold a                         -> expired
