# Amounts are a number for one leg, else a mapping; a leg not named counts as 0.
pool     gpu total=5
pool     cpu total=5
hold     a gpu:3 cpu:4 ttl=60         -> held
confirm  a 1                          -> invalid field=quantity code=amount_ambiguous
confirm  a ram:1                      -> invalid field=quantity code=leg_unknown
confirm  a gpu:0 cpu:0                -> invalid field=quantity code=quantity_required
confirm  a gpu:1 keep_rest            -> held gpu.confirmed=1 gpu.held=2 cpu.confirmed=0 cpu.held=4
release  a cpu:3                      -> held gpu.held=2 cpu.held=1
confirm  a gpu:3 cpu:1                -> quantity_exceeds_hold left=3
confirm  a gpu:2                      -> confirmed gpu.confirmed=3 cpu.confirmed=0
expect pool gpu                       -> held=0 consumed=3
expect pool cpu                       -> held=0 consumed=0
return   a gpu:2                      -> confirmed gpu.returned=2
return   a cpu:1                      -> quantity_exceeds_hold
history  a                            -> held partly_confirmed partly_released confirmed returned
