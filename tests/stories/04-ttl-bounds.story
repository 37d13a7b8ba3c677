# Any positive ttl up to max_ttl is taken; beyond that the call itself is wrong.
limits   min_ttl=2 max_ttl=60 max_lifetime=100
pool     gpu total=9
hold     a gpu 1 ttl=2                -> held
hold     b gpu 1 ttl=60               -> held
hold     x gpu 1 ttl=1.999999         -> invalid field=ttl code=ttl_too_short
hold     x gpu 1 ttl=60.000001        -> invalid field=ttl code=ttl_too_long
hold     x gpu 1 ttl=0                -> invalid code=ttl_too_short
hold     x gpu 1 ttl=-5               -> invalid code=ttl_too_short
extend   b by=61                      -> invalid field=by code=by_too_long
extend   b ttl=1                      -> invalid field=ttl code=ttl_too_short
hold     c gpu 1 deadline=100         -> held                 # a deadline is bounded by the lifetime instead
hold     x gpu 1 deadline=101         -> lifetime_exceeded
