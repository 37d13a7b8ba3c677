# An operator moves a hold without its token and past limits per account, and says why.
pool     show total=10 per_account=4
hold     a show 3 ttl=60 account=c:7           -> held
hold     b show 4 ttl=60 account=c:8           -> held
reassign a account=c:8 force                   -> invalid field=reason
reassign a account=c:8 force reason=moved      -> held account=c:8
entry    a -1                                  -> hold.reassigned forced=true reason=moved
usage    c:8                                   -> show:7/4
reassign a account=none force reason=moved     -> held account=none
reassign b account=none token=none force reason=moved -> held account=none
usage    c:8                                   -> nothing
reassign @7 account=c:8 force reason=moved     -> hold_not_found
