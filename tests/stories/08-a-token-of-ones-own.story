# The caller may bring the token; whoever knows id and token can act, from anywhere.
pool     gpu total=2
hold     a gpu 1 ttl=60 id=@1 token='job 7'   -> held token='job 7'
restart
extend   @1 token='job 7' by=5              -> held deadline=65
confirm  @1 token='job 8'                   -> not_owner
confirm  @1 token='job 7'                   -> confirmed
hold     b gpu 1 ttl=60 token=x*513         -> invalid field=token code=token_too_long
