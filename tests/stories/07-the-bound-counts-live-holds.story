# max_holds bounds live holds; ended ones make room, oldest first, and one that is due is no longer alive.
limits   max_holds=2
pool     gpu total=9
hold     a gpu 1 ttl=60                     -> held
hold     b gpu 1 ttl=60                     -> held
hold     c gpu 1 ttl=60                     -> hold_table_full transient=true
release  a                                  -> released
hold     c gpu 1 ttl=90                     -> held
hold     d gpu 1 ttl=90                     -> hold_table_full
clock    60
hold     d gpu 1 ttl=60                     -> held                  # b is due, unswept
expect hold c                               -> held
expect pool gpu                             -> held=2
confirm  d                                  -> confirmed
consume  e gpu 1                            -> confirmed
consume  f gpu 1                            -> confirmed
expect pool gpu                             -> held=1 consumed=3
