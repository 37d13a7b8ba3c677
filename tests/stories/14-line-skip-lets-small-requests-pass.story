# In a line that skips, those who fit are served first, in order of number; a large request may wait for ever.
pool     show total=3 line=skip               -> done line=skip
pool     other total=3                        -> done line=strict
pool     third total=3 line=fast              -> invalid field=line code=line_unknown
hold     a show 3 ttl=60                      -> held
join     b show 3 ttl=600 offer_ttl=30        -> waiting
join     c show 2 ttl=600 offer_ttl=30        -> waiting
join     d show 1 ttl=600 offer_ttl=30        -> waiting
join     e show 1 ttl=600 offer_ttl=30        -> waiting
release  a 1                                  -> held
expect hold d                                 -> held
expect hold b                                 -> waiting
release  a 1                                  -> held
expect hold e                                 -> held
hold     f show 1 ttl=60                      -> insufficient_capacity
release  a                                    -> released
hold     f show 1 ttl=60                      -> line_ahead waiting=2     # no plain hold passes, even here
release  d                                    -> released
expect hold c                                 -> held
release  e                                    -> released
expect hold b                                 -> waiting
release  c                                    -> released
expect hold b                                 -> held
