# B21: a quantity of 0 is a malformed request: nothing written, nothing poisoned.
pool     gpu total=1
cursor   here
hold     a gpu 0 ttl=60 op=one              -> invalid field=quantity
journal  after=here                         -> nothing
hold     a gpu 1 ttl=60 op=one              -> held
