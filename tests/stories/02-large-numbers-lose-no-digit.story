# Quantities go up to 2^53-1, so that no JSON client loses a digit; not one more.
pool     sand total=9007199254740991
hold     a sand 9007199254740990 ttl=60   -> held quantity=9007199254740990
expect pool sand                          -> held=9007199254740990 available=1
hold     b sand 2 ttl=60                  -> insufficient_capacity requested=2 available=1 total=9007199254740991
confirm  a                                -> confirmed confirmed=9007199254740990
restart
expect pool sand                          -> consumed=9007199254740990 available=1
hold     c sand 9007199254740992 ttl=60   -> invalid field=quantity code=quantity_out_of_range
pool     dust total=9007199254740992      -> invalid field=total code=total_out_of_range
