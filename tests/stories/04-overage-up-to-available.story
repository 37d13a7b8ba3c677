# For work that is already spent: as much of the extra as there is, never above the total; the answer says what is uncovered.
pool     tokens total=100
hold     a tokens 50 ttl=60                       -> held
hold     b tokens 30 ttl=60                       -> held
confirm  a 90 overage=up_to_available             -> confirmed confirmed=70 uncovered=20
expect pool tokens                                -> held=30 consumed=70 available=0
confirm  b 31 overage=up_to_available             -> confirmed confirmed=30 uncovered=1
expect pool tokens                                -> held=0 consumed=100 available=0
confirm  b 1 overage=sometimes                    -> invalid field=overage code=overage_unknown
