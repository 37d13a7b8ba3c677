# Whoever joins while units are free and nobody waits gets the offer in the same step. A retry gets the first answer again.
pool     show total=2
join     a show ttl=600 offer_ttl=30 op=one    -> held deadline=30 number=1 fence=1 quantity=1
join     b show ttl=600 offer_ttl=30           -> held number=2
join     c show ttl=600 offer_ttl=30 op=three  -> waiting number=3
join     a show ttl=600 offer_ttl=30 op=one    -> held replayed deadline=30
join     c show ttl=600 offer_ttl=31 op=three  -> operation_conflict
clock    30
expect hold c                                  -> waiting                # a read writes nothing
expect pool show                               -> held=0 available=2 waiting=1 bookable=0
hold     d show 1 ttl=60                       -> held                   # the call touches the pool: c is served before it
expect hold c                                  -> held deadline=60 held_slot=30
join     c show ttl=600 offer_ttl=30 op=three  -> waiting replayed        # what was, not what is
history  a                                     -> waiting offered expired
batch
join     e show 1 ttl=600 offer_ttl='30s'      -> waiting number=4
release  d                                     -> released
end
expect hold e                                  -> held deadline=60
