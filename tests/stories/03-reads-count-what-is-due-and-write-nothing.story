# A read shows a due hold as expired and its units as free, and leaves the journal alone.
pool     gpu total=4
hold     a gpu 3 ttl=10        -> held
clock    10
expect pool gpu                -> held=0 available=4
expect hold a                  -> expired ended_slot=10 held=0
expect holds state=expired     -> a
expect holds state=held        -> nothing
journal                        -> pool.created hold.held
hold     b gpu 4 ttl=10        -> held                       # the first write notices
journal                        -> pool.created hold.held hold.expired hold.held
