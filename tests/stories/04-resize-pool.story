# pool_not_found, then below_in_use; the same total again is nothing new.
resize   gpu total=2           -> pool_not_found subject=gpu
pool     gpu total=2
hold     a gpu 2 ttl=60        -> held
resize   gpu total=1           -> below_in_use found=2
resize   gpu total=2           -> done total=2
resize   gpu total=3           -> done total=3 held=2 available=1
clock    60
resize   gpu total=0           -> done total=0 held=0         # at the deadline nothing is in use
history  pool/gpu              -> created resized resized
history  a                     -> held expired
