# B19: held and confirmed in the same instant; the history is in order all the same.
pool     gpu total=1
hold     a gpu 1 ttl=60                     -> held held_slot=0
confirm  a                                  -> confirmed ended_slot=0
history  a                                  -> held confirmed
