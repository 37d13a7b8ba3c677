# pool_exists, then pool_table_full.
limits   max_pools=2
pool     gpu total=2           -> done total=2 held=0 consumed=0 available=2 fence=0 version=1
pool     gpu total=2           -> pool_exists subject=gpu transient=false
pool     gpu total=9           -> pool_exists
pool     cpu total=1
pool     gpu total=2           -> pool_exists                  # before the table is even looked at
pool     ram total=1           -> pool_table_full transient=true
expect pools                   -> cpu gpu
expect pool gpu                -> total=2
journal                        -> pool.created pool.created
