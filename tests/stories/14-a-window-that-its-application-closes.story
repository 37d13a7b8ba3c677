# From its end on nothing more is granted in it; once nothing is held it goes, with what was consumed there.
capacity show total=3 closes=100
reserve  a show quantity=1 ttl=200               -> held
reserve  b show quantity=1 ttl=200               -> held
confirm  a                                       -> confirmed
clock    99
reserve  c show ttl=60                           -> held
release  c                                       -> released
clock    100
reserve  c show ttl=60                           -> window_closed now=100 transient=false
extend   b by=10                                 -> held
confirm  b 2 overage=if_available                -> window_closed
sweep                                            -> done
expect pool ~r/told/"show"/null                  -> held=1 consumed=1
confirm  b                                       -> confirmed
restart
sweep                                            -> done
expect pool ~r/told/"show"/null                  -> pool_not_found
reserve  c show ttl=60                           -> window_closed
capacity show total=3 closes=300
reserve  e show ttl=60                           -> held
capacity show total=3
reserve  f show ttl=60                           -> held
clock    300
reserve  g show ttl=60                           -> held
verify                                           -> ok
