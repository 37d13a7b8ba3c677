# No read gives away the token or the ticket.
pool     gpu total=1
hold     a gpu 1 ttl=60 token=secret        -> held token=secret
expect hold a                               -> held token=none ticket=none
expect hold a via=ticket                    -> held token=none ticket=none
expire   a                                  -> not_due
clock    60
expire   a                                  -> expired token=none ticket=none
