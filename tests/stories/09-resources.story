# A resource's capacity is what the application answers, in the transaction that takes the hold.
capacity show total=3
resource hold a show quantity=2 ttl=60 actor=user:7 -> held
resource hold b show quantity=2 ttl=60           -> insufficient_capacity requested=2 available=1 total=3
capacity show total=4                            # the house grows: this very hold has the new seats
resource hold b show quantity=2 ttl=60           -> held
expect pool ~r/told/"show"/null                  -> total=4 held=4
capacity show total=1                            # and shrinks: nothing is cancelled, nothing more is granted
resource hold c show ttl=60                      -> insufficient_capacity available=0 total=1
expect pool ~r/told/"show"/null                  -> total=1 held=4
confirm  a                                       -> confirmed
release  b                                       -> released
resource hold c show ttl=60                      -> insufficient_capacity available=0 total=1
clock    60
capacity show total=3
resource hold c show ttl=60 op=once              -> held
capacity show total=9
resource hold c show ttl=60 op=once              -> held replayed
resource hold d show quantity=2 ttl=60 op=once   -> operation_conflict
expect pool ~r/told/"show"/null                  -> total=3 held=1 consumed=2
resource hold d nowhere ttl=60                   -> insufficient_capacity available=0 total=0
history  a                                       -> held confirmed
history  c                                       -> held
restart
expect pool ~r/told/"show"/null                  -> total=3 held=1 consumed=2
resource hold d show quantity=0 ttl=60           -> invalid field=quantity
