# If the clock steps back before anybody used the later time, nothing had happened yet.
pool     gpu total=1
hold     a gpu 1 ttl=10        -> held
clock    100
expect hold a                  -> expired
clock    5
expect hold a                  -> held
confirm  a                     -> confirmed ended_slot=5
