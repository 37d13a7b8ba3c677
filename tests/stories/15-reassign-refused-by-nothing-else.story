# Archived pools, closed windows and lines do not refuse it; holds of faces move like any other.
pool     show total=4
hold     a show 4 ttl=60 account=c:7           -> held
join     w show 1 ttl=60 offer_ttl=60          -> waiting
reassign a account=c:8                         -> held account=c:8
archive  show
reassign a account=c:9                         -> held account=c:9
usage    c:9                                   -> show:4/none
expect hold w                                  -> waiting
unarchive show
release  a 1                                   -> held
expect hold w                                  -> held
claim hold k email x ttl=60                    -> held
reassign k account=c:9                         -> held account=c:9
items add s1
items hold s s1 ttl=60                         -> held
reassign s account=c:9                         -> held account=c:9
usage    c:9                                   -> show:3/none                      # pools of faces count no accounts
confirm  k                                     -> confirmed
confirm  s                                     -> confirmed
