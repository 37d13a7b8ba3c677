# What was consumed in a window is swept with it; its holds are kept for the retention from its end, and return nothing then.
limits   retention=100 retention_consumed=4000
rate     api 5/60s
rate consume a api client 3                 -> confirmed
clock    60
sweep                                       -> done
clock    159.999999
sweep                                       -> done
expect hold a                               -> confirmed
return   a 1                                -> confirmed returned=1
clock    200
rate consume b api client 1                 -> confirmed
clock    260
sweep                                       -> done
expect hold a                               -> hold_retired
expect hold b                               -> confirmed
history  a                                  -> held confirmed returned retired
