# Limits belong to no tenant: only who speaks for all of them may change them.
pool     gpu total=9
change   max_legs=3                         -> done version=1
tenant   acme
change   max_legs=4                         -> invalid field=tenant code=tenant_bound
