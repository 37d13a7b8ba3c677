# A hold needs exactly one of ttl and deadline, and it must be a time.
pool     gpu total=9
hold     a gpu 1                            -> invalid field=ttl code=ttl_required
hold     a gpu 1 ttl=60 deadline=60         -> invalid field=deadline code=deadline_ambiguous
hold     a gpu 1 ttl=nan                    -> invalid field=ttl code=ttl_malformed
hold     a gpu 1 ttl=inf                    -> invalid field=ttl code=ttl_malformed
hold     a gpu 1 ttl=true                   -> invalid field=ttl code=ttl_malformed
hold     a gpu 1 ttl=2592000.000001         -> invalid field=ttl code=ttl_too_long
hold     a gpu 1 ttl=2592000                -> held                 # 30 days
