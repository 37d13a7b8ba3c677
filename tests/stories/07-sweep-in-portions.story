# A limit makes portions, earliest deadline first, and `more` says whether to come again.
pool     gpu total=3
hold     a gpu 1 ttl=30                     -> held
hold     b gpu 1 ttl=10                     -> held
hold     c gpu 1 ttl=20                     -> held
clock    60
sweep    limit=1                            -> done expired=1 holds=b more=true
history  b                                  -> held expired
history  c                                  -> held
sweep    limit=1                            -> done expired=1 holds=c more=true
history  c                                  -> held expired
history  a                                  -> held
sweep    limit=1                            -> done expired=1 holds=a more=false
history  a                                  -> held expired
sweep    limit=0                            -> invalid field=limit
