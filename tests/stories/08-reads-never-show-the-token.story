# No read gives away the token or the ticket.
pool     gpu total=1
hold     a gpu 1 ttl=60 owner=secret        -> held owner=secret
expect hold a                               -> held owner=none ticket=none
expect hold a via=ticket                    -> held owner=none ticket=none
expire   a                                  -> not_due
clock    60
expire   a                                  -> expired owner=none ticket=none
