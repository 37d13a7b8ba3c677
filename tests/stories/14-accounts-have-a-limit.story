# At most so many units of a pool for one account: waited for, held, or confirmed and not returned.
pool     show total=10 per_account=4          -> done per_account=4
pool     free total=10                        -> done per_account=none
pool     zero total=10 per_account=0          -> invalid field=per_account
hold     a show 2 ttl=60                      -> account_required subject=show transient=false
consume  a show 2                             -> account_required
hold     a show 2 ttl=60 account=c:7          -> held account=c:7
hold     b show 3 ttl=60 account=c:7          -> account_limit subject=show requested=3 used=2 limit=4 transient=false short=show:3/2
hold     b show 3 ttl=60 account=c:8          -> held
consume  d show 2 account=c:7                 -> confirmed
hold     e show 11 ttl=60 account=c:7         -> account_limit requested=11 used=4
hold     e show 4 ttl=60 account=c:9          -> insufficient_capacity short=show:4/3
hold     e free:1 show:1 ttl=60 account=c:7   -> account_limit subject=show
hold     e free 9 ttl=60 account=c:7          -> held                     # tallied, though nothing limits it
usage    c:7                                  -> free:9/none show:4/4
usage    c:8                                  -> show:3/4
usage    c:7 limit=1                          -> free:9/none
usage    c:7 after=free                       -> show:4/4
usage    c:0                                  -> nothing
confirm  b 5 overage=if_available             -> account_limit requested=2 used=3 limit=4
confirm  b 5 overage=up_to_available          -> confirmed confirmed=4 uncovered=1
entry    b -1                                 -> hold.confirmed show.held=-3 show.consumed=4 show.used=1
hold     f free 2 ttl=60                      -> insufficient_capacity
limit    free per_account=4                   -> done per_account=4       # it counts what is there
hold     f free 1 ttl=60 account=c:7          -> account_limit used=9 limit=4
history  pool/free                            -> created hold.held limited
hold     f show 1 ttl=60 account=             -> invalid field=account
hold     f show 1 ttl=60 account=x*300        -> invalid field=account
