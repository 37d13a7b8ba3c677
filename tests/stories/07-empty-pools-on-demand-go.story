# A pool that a leg brought along is swept away once nothing is held or consumed in it; one made by command stays.
pool     gpu total=1
hold     a rate:1/5 ttl=10                  -> held
hold     b spent:1/5 ttl=10                 -> held
confirm  b                                  -> confirmed
sweep                                       -> done
expect pools                                -> gpu rate spent
clock    10
sweep                                       -> done expired=1
sweep                                       -> done expired=0
expect pools                                -> gpu spent
history  pool/rate                          -> created hold.held hold.expired removed
return   b                                  -> confirmed returned=1
sweep                                       -> done
expect pools                                -> gpu
