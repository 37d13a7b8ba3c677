# pool_not_found, then below_in_use, then version_conflict; the same total again is nothing new.
resize   gpu total=2           -> pool_not_found subject=gpu
pool     gpu total=2
hold     a gpu 2 ttl=60        -> held
resize   gpu total=1           -> below_in_use in_use=2
resize   gpu total=2           -> done total=2
resize   gpu total=3           -> done total=3 held=2 available=1
resize   gpu total=4 if_version=2 -> version_conflict version=3
resize   gpu total=1 if_version=2 -> below_in_use in_use=2
clock    60
resize   gpu total=0           -> done total=0 held=0         # at the deadline nothing is in use
history  pool/gpu              -> created hold.held resized hold.expired resized
history  a                     -> held expired
