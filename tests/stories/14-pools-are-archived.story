# Nothing more is granted on an archived pool; what was granted goes on. It is left out of lists unless asked for.
archive  gpu                   -> pool_not_found
pool     gpu total=5
pool     cpu total=5
hold     a gpu:1 cpu:1 ttl=60  -> held
hold     b gpu 1 ttl=60        -> held
hold     c gpu 1 ttl=60        -> held
consume  d gpu 1               -> confirmed
archive  gpu actor=user:7      -> done archived=true held=3 consumed=1
archive  gpu                   -> done archived=true             # quiet: it is so already
history  pool/gpu              -> created hold.held hold.held hold.held hold.held hold.confirmed archived
expect   pools                 -> cpu
expect   pools archived=true   -> cpu gpu
hold     e gpu 1 ttl=60        -> pool_archived subject=gpu transient=false
hold     e cpu:1 gpu:9 ttl=60  -> pool_archived subject=gpu
hold     e cpu:1 gpu:1 no:1 ttl=60 -> pool_not_found
hold     e gpu:1/9 ttl=60      -> pool_archived
consume  e gpu 1               -> pool_archived
extend   b by=60               -> held
confirm  b 2 overage=if_available    -> pool_archived subject=gpu
confirm  b 2 overage=up_to_available -> confirmed confirmed=1 uncovered=1
release  c                     -> released
return   d                     -> confirmed returned=1
resize   gpu total=6           -> done archived=true
restart
clock    60
expect   pool gpu              -> total=6 held=0 consumed=1 archived=true
hold     e gpu 1 ttl=60        -> pool_archived
unarchive gpu                  -> done archived=false
unarchive gpu                  -> done archived=false
hold     e gpu 1 ttl=60        -> held
history  pool/gpu              -> created hold.held hold.held hold.held hold.held hold.confirmed archived hold.confirmed hold.released hold.returned resized hold.expired unarchived hold.held
verify                         -> ok
