# No legs too many, no pool twice.
limits   max_legs=3
pool     a total=9
pool     b total=9
pool     c total=9
pool     d total=9
hold     h a:1 b:1 c:1 d:1 ttl=60           -> invalid field=legs code=legs_too_many
hold     h a:1 b:1 a:2 ttl=60               -> invalid field=legs code=pool_twice
hold     h a:1/-1 ttl=60                    -> invalid field=create_with_total
hold     h a:1 b:1 c:1 ttl=60               -> held
expect pool d                               -> held=0
