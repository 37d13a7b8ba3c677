# A held hold moves to another account, or to none. The first rung that applies is the answer.
pool     show total=10 per_account=4
pool     free total=10
hold     a show:3 free:2 ttl=60 account=c:7    -> held account=c:7
reassign @7 account=c:8 token=mine             -> hold_not_found
reassign a account=c:8 token=thief             -> not_owner
reassign a account=none token=none             -> not_owner
reassign a account=none                        -> account_required subject=show transient=false
hold     b show 2 ttl=60 account=c:8           -> held
reassign a account=c:8                         -> account_limit subject=show requested=3 used=2 limit=4 short=show:3/2
reassign a account=                            -> invalid field=account
reassign a account=x*300                       -> invalid field=account
expect hold a                                  -> held account=c:7
history  a                                     -> held
reassign a account=c:7                         -> held account=c:7                 # the same account: done, and nothing changes
history  a                                     -> held
reassign a account=c:9 actor=user:7 reason=gift -> held account=c:9
history  a                                     -> held reassigned
entry    a -1                                  -> hold.reassigned actor=user:7 reason=gift
usage    c:7                                   -> nothing
usage    c:9                                   -> free:2/none show:3/4
release  b                                     -> released
reassign b account=c:9                         -> already_released
join     w free 9 ttl=60 offer_ttl=60          -> waiting
reassign w account=c:9                         -> hold_waiting
confirm  a                                     -> confirmed
reassign a account=c:8                         -> already_confirmed
release  w                                     -> released
hold     d free 1 ttl=60                       -> held
clock    60
reassign d account=c:9                         -> hold_expired
verify                                         -> ok
