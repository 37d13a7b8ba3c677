# B5: expiring an expired hold is a quiet no-op.
pool     gpu total=1
hold     a gpu 1 ttl=60                     -> held
clock    60
expire   a                                  -> expired
cursor   here
expire   a                                  -> expired
journal  after=here                         -> nothing
expect pool gpu                             -> held=0
