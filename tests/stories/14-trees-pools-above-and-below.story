# An archived pool above refuses; a pool with others below it is not removed; eight levels are allowed, and no parts without a name.
pool     a total=5
pool     a//b total=5
pool     a//b//c total=5
hold     x a//b//c 1 ttl=60                   -> held
archive  a
hold     y a//b//c 1 ttl=60                   -> pool_archived subject=a
consume  y a//b 1                             -> pool_archived subject=a
confirm  x 2 overage=if_available             -> pool_archived subject=a
expect pool a//b//c                           -> available=4 bookable=0
extend   x by=10                              -> held
confirm  x                                    -> confirmed
return   x                                    -> confirmed
unarchive a
remove   a                                    -> pool_in_use
remove   a//b                                 -> pool_in_use
remove   a//b//c
expect pool a//b                              -> children=0
remove   a//b
remove   a
pool     1 total=9
pool     1//2 total=9
pool     1//2//3 total=9
pool     1//2//3//4 total=9
pool     1//2//3//4//5 total=9
pool     1//2//3//4//5//6 total=9
pool     1//2//3//4//5//6//7 total=9
pool     1//2//3//4//5//6//7//8 total=2
pool     1//2//3//4//5//6//7//8//9 total=9    -> invalid field=id code=id_too_deep
hold     z 1//2//3//4//5//6//7//8 2 ttl=60    -> held
expect pool 1                                 -> held=2
expect pool 1//2//3//4                        -> held=2 bookable=7
resize   1 total=1                            -> below_in_use
resize   1//2 total=1                         -> below_in_use
resize   1//2 total=2                                                     # resizing looks at its own pool only
release  z                                    -> released
expect pool 1                                 -> held=0
expect pools prefix=1//2//3//4//5             -> 1//2//3//4//5 1//2//3//4//5//6 1//2//3//4//5//6//7 1//2//3//4//5//6//7//8
pool     1// total=1                          -> invalid field=id code=id_malformed
pool     //1 total=1                          -> invalid field=id code=id_malformed
pool     1///2 total=1                        -> invalid field=id code=id_malformed
pool     1/2 total=1                                                      # one slash is a character like any other
