# Beside other commands, and of a hold that the same batch places: each is decided on what those before it left.
pool     show total=10 per_account=4
hold     a show 3 ttl=60 account=c:7           -> held
batch
  reassign a account=c:8                       -> held account=c:8
  hold     b show 2 ttl=60 account=c:8         -> account_limit used=3
  hold     b show 4 ttl=60 account=c:7         -> held
end
batch atomic
  hold     d show 1 ttl=60 account=c:9 id=@20 token=mine -> aborted
  reassign a account=c:7                       -> account_limit
end
usage    c:7                                   -> show:4/4
usage    c:8                                   -> show:3/4
batch atomic
  hold     d show 1 ttl=60 account=c:9 id=@20 token=mine -> held account=c:9
  reassign d account=c:8 token=mine            -> held account=c:8
  reassign a account=c:9                       -> held account=c:9
end
usage    c:8                                   -> show:1/4
usage    c:9                                   -> show:3/4
