# What a hold counts for moves as a whole: held, and confirmed and not returned, on every level. The units stay where they are.
pool     venue total=20 per_account=6
pool     venue//stalls total=20
pool     show total=10
hold     a venue//stalls:4 show:3 ttl=60 account=c:7 -> held
confirm  a venue//stalls:2 show:1 keep_rest    -> held
return   a venue//stalls:1 show:0              -> held
usage    c:7                                   -> show:3/none venue:3/6 venue//stalls:3/none
reassign a account=c:8                         -> held account=c:8
usage    c:7                                   -> nothing
usage    c:8                                   -> show:3/none venue:3/6 venue//stalls:3/none
expect pool venue                              -> held=2 consumed=1
restart
hold     b venue 4 ttl=60 account=c:8          -> account_limit used=3 limit=6
hold     b venue 3 ttl=60 account=c:8          -> held
hold     d venue 6 ttl=60 account=c:7          -> held                            # all of its limit is free again
confirm  a                                     -> confirmed account=c:8
return   a                                     -> confirmed
usage    c:8                                   -> venue:3/6
limit    venue per_account=none
reassign b account=none                        -> held account=none
usage    c:8                                   -> nothing
reassign b account=c:8                         -> held account=c:8
usage    c:8                                   -> venue:3/none
clock    60
usage    c:8                                   -> nothing
