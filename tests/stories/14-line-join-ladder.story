# The rungs of joining, in their order; and where no line stands.
limits   max_line=2 max_holds=5
join     a show 1 ttl=60 offer_ttl=60         -> pool_not_found
pool     show total=2 per_account=2
pool     show//left total=1
pool     open total=9
archive  show
join     a show 9 ttl=60 offer_ttl=60         -> pool_archived subject=show
unarchive show
join     a show 9 ttl=60 offer_ttl=60         -> account_required subject=show
join     a show 1 ttl=60 offer_ttl=60 account=c:1 id=@7 -> held
join     b show 9 ttl=60 offer_ttl=60 account=c:1 id=@7 -> hold_exists
join     b show 1 ttl=60 offer_ttl=60 account=c:1 -> held
join     c show 1 ttl=60 offer_ttl=60 account=c:1 -> account_limit subject=show requested=1 used=2 limit=2 transient=false
join     c show 3 ttl=60 offer_ttl=60 account=c:2 -> account_limit requested=3 used=0 limit=2 short=show:3/2
join     c show 3 ttl=60 offer_ttl=60 force reason='box office' -> insufficient_capacity requested=3 available=0 total=2
join     c show 1 ttl=60 offer_ttl=60 account=c:2 -> waiting
join     d show 1 ttl=60 offer_ttl=60 account=c:2 -> waiting
join     e show 9 ttl=60 offer_ttl=60 account=c:2 -> line_full waiting=2 subject=show transient=true
hold     e open 1 ttl=60                      -> held
release  d                                    -> released
join     f show 1 ttl=60 offer_ttl=60 account=c:3 -> waiting
release  f                                    -> released
hold     g open 1 ttl=60                      -> held
join     f show 9 ttl=60 offer_ttl=60 account=c:2 -> hold_table_full
join     f show//left 1 ttl=60 offer_ttl=60   -> invalid field=pool code=pool_without_line
join     f show:1 open:1 ttl=60 offer_ttl=60  -> invalid field=pool code=pool_not_text
join     f show 1 offer_ttl=60 ttl=0          -> invalid field=ttl code=ttl_too_short
join     f show 1 offer_ttl=0 ttl=60          -> invalid field=offer_ttl code=offer_ttl_too_short
join     f show 0 offer_ttl=60 ttl=60         -> invalid field=quantity
join     f show 1 offer_ttl=60 ttl=60 force   -> invalid field=reason
batch
join     f show:1 open:1 ttl=60 offer_ttl=60
end                                           -> invalid field=legs code=line_of_several
batch
join     f show:1/5 ttl=60 offer_ttl=60
end                                           -> invalid field=pool code=pool_without_line
batch
join     f show 1 ttl=60
end                                           -> invalid field=offer_ttl code=offer_ttl_required
remove   show//left
