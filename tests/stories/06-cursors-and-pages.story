# A cursor is a place behind an entry: what comes after it comes in order, page by page.
pool     gpu total=9
cursor   start
hold     a gpu 1 ttl=60                     -> held
extend   a by=1                             -> held
cursor   middle
confirm  a                                  -> confirmed
journal  limit=2                            -> pool.created hold.held
journal  after=start                        -> hold.held hold.extended hold.confirmed
journal  after=start limit=1                -> hold.held
journal  after=middle                       -> hold.confirmed
restart
journal  after=middle                       -> hold.confirmed
cursor   end
journal  after=end                          -> nothing
