# A refusal is an answer like any other: the retry gets it again, even once there is room.
pool     gpu total=1
hold     a gpu 1 ttl=60                     -> held
hold     b gpu 1 ttl=60 op=req-1            -> insufficient_capacity requested=1 available=0
release  a                                  -> released
hold     b gpu 1 ttl=60 op=req-1            -> insufficient_capacity replayed requested=1 available=0 total=1
hold     b gpu 1 ttl=60 op=req-2            -> held              # a new attempt has a new id
extend   @9 token=x by=5 op=req-3           -> hold_not_found
extend   @9 token=x by=5 op=req-3           -> hold_not_found replayed
