# One text carries id and token, for webhooks and other processes.
pool     gpu total=3
hold     a gpu 1 ttl=60                     -> held
hold     b gpu 1 ttl=60                     -> held
extend   a by=5 via=ticket                  -> held deadline=65
confirm  a via=ticket                       -> confirmed
release  b via=ticket                       -> released
return   a via=ticket                       -> confirmed returned=1
expect hold a via=ticket                    -> confirmed
confirm  @hk1.nonsense                      -> invalid field=hold code=ticket_malformed
