# A pool may be empty by design: it grants nothing until it is given units.
pool     vip total=0
hold     a vip 1 ttl=60        -> insufficient_capacity requested=1 available=0 total=0
resize   vip total=1
hold     a vip 1 ttl=60        -> held
