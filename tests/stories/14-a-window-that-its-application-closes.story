# From its end on nothing more is granted in it; once nothing is held it goes, with what was consumed there.
capacity show total=3 closes=100
resource hold a show quantity=1 ttl=200          -> held
resource hold b show quantity=1 ttl=200          -> held
confirm  a                                       -> confirmed
clock    99
resource hold c show ttl=60                      -> held
release  c                                       -> released
clock    100
resource hold c show ttl=60                      -> window_closed now=100 transient=false
extend   b by=10                                 -> held
confirm  b 2 overage=if_available                -> window_closed
sweep                                            -> done
expect pool ~r/told/"show"/null                  -> held=1 consumed=1
confirm  b                                       -> confirmed
restart
sweep                                            -> done
expect pool ~r/told/"show"/null                  -> pool_not_found
resource hold c show ttl=60                      -> window_closed
capacity show total=3 closes=300
resource hold e show ttl=60                      -> held
capacity show total=3
resource hold f show ttl=60                      -> held
clock    300
resource hold g show ttl=60                      -> held
verify                                           -> ok
