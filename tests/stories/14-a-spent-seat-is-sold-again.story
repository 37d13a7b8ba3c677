# A numbered seat that was spent is available again, while its hold is kept and after that was dropped.
limits   retention=100 retention_consumed=400
items add s1 s2 s3
items reserve a s1 s2 ttl=60                -> held
items finalize a                            -> confirmed
clock    50
items reopen s1                             -> invalid field=reason code=reason_required
items reopen s1 s3 reason=refund            -> quantity_exceeds_consumed subject=s3
items reopen s9 reason=refund               -> pool_not_found subject=s9
items reopen s1 reason=refund               -> done
items states s1 s2 s3                       -> available spent available
items reserve b s1 ttl=60                   -> held
items reopen s1 reason=refund               -> quantity_exceeds_consumed subject=s1
items finalize b                            -> confirmed
clock    450
sweep                                       -> done
expect hold a                               -> hold_retired
items states s1 s2                          -> spent spent
items reopen s2 s1 reason=refund op=o       -> done
items states s1 s2                          -> available available
items reopen s2 s1 reason=refund op=o       -> done
items reopen s2 reason=refund               -> quantity_exceeds_consumed subject=s2
