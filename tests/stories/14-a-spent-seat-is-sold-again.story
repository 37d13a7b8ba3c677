# A numbered seat that was spent is available again, while its hold is kept and after that was dropped.
limits   retention=100 retention_consumed=400
items add s1 s2 s3
items hold a s1 s2 ttl=60           -> held
confirm a                           -> confirmed
clock    50
items free s1                       -> invalid field=reason code=reason_required
items free s1 s3 reason=refund      -> quantity_exceeds_consumed subject=s3
items free s9 reason=refund         -> pool_not_found subject=s9
items free s1 reason=refund         -> done
items get s1 s2 s3                  -> available confirmed available
items hold b s1 ttl=60              -> held
items free s1 reason=refund         -> quantity_exceeds_consumed subject=s1
confirm b                           -> confirmed
clock    450
sweep                               -> done
expect hold a                       -> hold_retired
items get s1 s2                     -> confirmed confirmed
items free s2 s1 reason=refund op=o -> done
items get s1 s2                     -> available available
items free s2 s1 reason=refund op=o -> done
items free s2 reason=refund         -> quantity_exceeds_consumed subject=s2
