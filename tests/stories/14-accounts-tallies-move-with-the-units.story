# What an account uses falls with every unit that comes back: by expiry, release, partial confirm, return, or leaving a line.
pool     show total=10
pool     hall total=10
hold     a show:3 hall:2 ttl=10 account=c:7   -> held
hold     b show 5 ttl=60 account=c:7          -> held
usage    c:7                                  -> hall:2/none show:8/none
release  b 1                                  -> held
usage    c:7                                  -> hall:2/none show:7/none
confirm  b 2                                  -> confirmed confirmed=2
usage    c:7                                  -> hall:2/none show:5/none
return   b 1                                  -> confirmed returned=1
usage    c:7                                  -> hall:2/none show:4/none
clock    10
usage    c:7                                  -> show:1/none              # a read counts what is due as returned
hold     d show 9 ttl=60 account=c:8          -> held                     # touches show only
usage    c:7                                  -> show:1/none
entry    a -1                                 -> hold.expired show.held=-3 show.used=-3
sweep                                         -> done
usage    c:7                                  -> show:1/none
join     e show 2 ttl=60 offer_ttl=60 account=c:7 -> waiting
usage    c:7                                  -> show:3/none
release  e                                    -> released
return   b                                    -> confirmed returned=2
usage    c:7                                  -> nothing
tenant   acme
usage    c:8                                  -> nothing
tenant   none
usage    c:8                                  -> show:9/none
restart
usage    c:8                                  -> show:9/none
