# Blank, oversized, reserved and unprintable names are refused with the field and a stable code.
pool     x*513 total=1                      -> invalid field=id code=id_too_long
pool     x*512 total=1
pool     '' total=1                         -> invalid field=id code=id_required
pool     '   ' total=1                      -> invalid field=id code=id_required
pool     a\u0000b total=1                   -> invalid field=id code=id_unprintable
pool     a\ud800b total=1                   -> invalid field=id code=id_unprintable
pool     ~mine total=1                      -> invalid field=id code=id_reserved
hold     a ~mine 1 ttl=60                   -> invalid field=pool code=pool_reserved
hold     a x*513 1 ttl=60                   -> invalid field=pool code=pool_too_long
pool     'Größe 7 \u2013 Süd' total=1
hold     a 'Größe 7 \u2013 Süd' 1 ttl=60    -> held
hold     b 'größe 7 \u2013 süd' 1 ttl=60    -> pool_not_found      # nothing is folded
tenant   x*65
pool     gpu total=1                        -> invalid field=tenant code=tenant_too_long
tenant   x*64
pool     gpu total=1
