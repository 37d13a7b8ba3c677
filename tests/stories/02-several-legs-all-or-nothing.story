# One hold on several pools takes every leg, or none of them.
pool     room:12 total=1
pool     parking total=3
hold     a room:12:1 parking:2 ttl=900   -> held room:12.held=1 parking.held=2
hold     b room:12:1 parking:1 ttl=900   -> insufficient_capacity short=room:12:1/0
hold     c room:12:1 parking:2 ttl=900   -> insufficient_capacity short=room:12:1/0,parking:2/1
expect pool parking            -> held=2 available=1
release  a                     -> released room:12.held=0 parking.held=0
hold     c room:12:1 parking:3 ttl=900   -> held
expect pool room:12            -> held=1 available=0
expect pool parking            -> held=3 available=0
confirm  c                     -> confirmed room:12.confirmed=1 parking.confirmed=3
expect pool parking            -> held=0 consumed=3
