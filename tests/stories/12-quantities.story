# Zero, negative, fractional, boolean and huge quantities never reach the rules; nothing is written.
pool     gpu total=5
cursor   here
hold     a gpu 0 ttl=60                     -> invalid field=quantity code=quantity_out_of_range
hold     a gpu -1 ttl=60                    -> invalid field=quantity code=quantity_out_of_range
hold     a gpu 1.5 ttl=60                   -> invalid field=quantity code=quantity_not_whole
hold     a gpu true ttl=60                  -> invalid field=quantity code=quantity_not_whole
hold     a gpu nan ttl=60                   -> invalid field=quantity code=quantity_not_whole
hold     a gpu 9007199254740992 ttl=60      -> invalid field=quantity code=quantity_out_of_range
hold     a gpu:1 cpu:0 ttl=60               -> invalid field=quantity
consume  a gpu 0                            -> invalid field=quantity
pool     x total=-1                         -> invalid field=total code=total_out_of_range
pool     x total=true                       -> invalid field=total code=total_not_whole
journal  after=here                         -> nothing
hold     a gpu 2 ttl=60                     -> held
confirm  a 0                                -> invalid field=quantity code=quantity_out_of_range
confirm  a -1                               -> invalid field=quantity
confirm  a true                             -> invalid field=quantity code=quantity_not_whole
release  a 0                                -> invalid field=quantity
return   a 0                                -> invalid field=quantity
expect hold a                               -> held held=2 version=1
