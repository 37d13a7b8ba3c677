# One transaction returns a bounded number of due legs; a longer backlog goes before the buyer, and none of it is lost.
limits   max_due=2
pool     seats total=5
hold     a seats 1 ttl=1 id=@1 -> held
hold     b seats 1 ttl=2 id=@2 -> held
hold     c seats 1 ttl=3 id=@3 -> held
hold     d seats 1 ttl=4 id=@4 -> held
hold     e seats 1 ttl=5 id=@5 -> held
clock    60
hold     f seats 5 ttl=60      -> held
expect pool seats              -> held=5 available=0
expect holds state=expired     -> a b c d e
history  a                     -> held expired
history  e                     -> held expired
