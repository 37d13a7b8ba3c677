# A lowered limit cancels nothing; force with a reason passes it, and is journaled as such.
pool     show total=10 per_account=4
hold     a show 4 ttl=60 account=c:7          -> held
limit    show per_account=2 if_version=1      -> version_conflict
limit    show per_account=2 actor=user:1      -> done per_account=2
limit    show per_account=2                   -> done version=3           # quiet: it is so already
limit    hall per_account=2                   -> pool_not_found
expect hold a                                 -> held held=4
usage    c:7                                  -> show:4/2
hold     b show 1 ttl=60 account=c:7          -> account_limit requested=1 used=4 limit=2 short=show:1/0
confirm  a 3 keep_rest                        -> held
hold     b show 1 ttl=60 account=c:7 force    -> invalid field=reason
hold     b show 1 ttl=60 account=c:7 force reason='box office' -> held
entry    b 1                                  -> hold.held forced=true reason='box office' show.used=1
consume  c show 1 force reason='box office'   -> confirmed account=none   # passes account_required too
join     d show 9 ttl=60 offer_ttl=60 account=c:7 force reason='box office' -> waiting
usage    c:7                                  -> show:14/2
release  d                                    -> released
limit    show per_account=none                -> done per_account=none
hold     e show 1 ttl=60                      -> held
entry    pool/show -2                         -> pool.limited
