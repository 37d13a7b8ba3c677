# How long a key may be held is one limit, however it is placed; it is stored with the data, and extend is bounded by max_lifetime alone.
limits max_claim_ttl=100 max_lifetime=400
pool show total=9
claim hold a email x ttl=101                                            -> invalid field=ttl code=ttl_too_long
combine a show:1 key/email/x ttl=101                                    -> invalid field=ttl code=ttl_too_long
combine a show:1 key/email/x deadline=101                               -> invalid field=deadline code=deadline_too_late
batch
  combine b show:1 key/email/b deadline=101                             -> invalid field=deadline code=deadline_too_late
  hold    c show 1 ttl=101                                              -> held
end
claim taken email x                                                     -> false
claim hold a email x ttl=100                                            -> held deadline=100
combine b show:1 key/email/y deadline=100                               -> held
extend a ttl=400                                                        -> held deadline=400
extend a ttl=401                                                        -> lifetime_exceeded
change max_claim_ttl=300 reason='links by mail are good for three days' -> done
restart
claim hold d email z ttl=300                                            -> held deadline=300
claim hold e email e ttl=301                                            -> invalid field=ttl code=ttl_too_long
change max_claim_ttl=50                                                 -> done
combine e show:1 key/email/e ttl=51                                     -> invalid field=ttl code=ttl_too_long
expect hold d                                                           -> held deadline=300
