# History follows the journal, never the clock: all of this happens in one instant, or the clock even steps back.
pool     gpu total=2
hold     a gpu 2 ttl=60                     -> held
extend   a by=1                             -> held
confirm  a 1 keep_rest                      -> held
release  a                                  -> released
history  a                                  -> held extended partly_confirmed released
hold     b gpu 1 ttl=60                     -> held held_slot=0
clock    50
extend   b by=30                            -> held
clock    20
confirm  b                                  -> confirmed ended_slot=20
history  b                                  -> held extended confirmed
