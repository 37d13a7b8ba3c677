# A refusal for capacity names every leg that fell short, in leg order, and nothing else.
pool     a total=5
pool     b total=2
pool     c total=1
hold     h a:5 b:3 c:4 ttl=60  -> insufficient_capacity short=b:3/2,c:4/1 requested=3 available=2 total=2
hold     h c:4 b:3 a:5 ttl=60  -> insufficient_capacity short=c:4/1,b:3/2 requested=4 available=1 total=1
hold     h a:6 b:1 ttl=60      -> insufficient_capacity short=a:6/5
expect pool a                  -> held=0
expect pool b                  -> held=0
