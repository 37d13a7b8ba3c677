# An operation id answers with what was then, of the move and of what came before it; the account belongs to the request.
pool     show total=10 per_account=4
hold     a show 2 ttl=60 account=c:7 op=o1     -> held account=c:7
reassign a account=c:8 op=o2                   -> held account=c:8
reassign a account=c:9                         -> held account=c:9
confirm  a 1 keep_rest op=o3                   -> held account=c:9
reassign a account=c:7                         -> held account=c:7
reassign a account=c:8 op=o2                   -> held account=c:8 replayed
hold     a show 2 ttl=60 account=c:7 op=o1     -> held account=c:7 replayed
confirm  a 1 keep_rest op=o3                   -> held account=c:9 replayed
reassign a account=c:9 op=o2                   -> operation_conflict
reassign a account=none op=o2                  -> operation_conflict
restart
hold     a show 2 ttl=60 account=c:7 op=o1     -> held account=c:7 replayed
reassign a account=c:8 op=o2                   -> held account=c:8 replayed
expect hold a                                  -> held account=c:7
