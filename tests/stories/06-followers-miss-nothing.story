# A named follower goes on where it stopped, across a restart; a new name starts at the beginning.
pool     gpu total=2
hold     a gpu 1 ttl=60                     -> held
follow   mailer                             -> pool.created hold.held
follow   mailer                             -> nothing
confirm  a                                  -> confirmed
restart
hold     b gpu 1 ttl=60                     -> held
follow   mailer                             -> hold.confirmed hold.held
follow   auditor                            -> pool.created hold.held hold.confirmed hold.held
follow   mailer                             -> nothing
