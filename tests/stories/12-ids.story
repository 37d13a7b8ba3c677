# A hold's id is 128 bits; anything else is no id.
pool     gpu total=9
hold     a gpu 1 ttl=60 id=seven            -> invalid field=id code=id_malformed
hold     a gpu 1 ttl=60 id=''               -> invalid field=id code=id_malformed
confirm  @seven token=x                     -> invalid field=hold code=hold_malformed
release  @seven token=x                     -> invalid field=hold
extend   @seven token=x by=1                -> invalid field=hold
expire   @seven                             -> invalid field=hold
return   @seven token=x                     -> invalid field=hold
expect hold @seven                          -> invalid field=hold
hold     a gpu 1 ttl=60 id=FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF   -> held
expect hold @ffffffffffffffffffffffffffffffff                     -> held
