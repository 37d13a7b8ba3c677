# A control plane may extend and confirm without the token, if it says why: every rung but that of the owner stays.
limits   max_lifetime=100
pool     gpu total=4
# Extend: no later than any extension may be, and never earlier.
hold     c gpu 3 ttl=60                     -> held
extend   c by=30 token=none                 -> not_owner
extend   c by=30 force token=none           -> invalid field=reason code=reason_required
extend   c by=41 force token=none reason=called -> lifetime_exceeded
extend   c by=30 force token=none reason=called actor=user:root -> held deadline=90
entry    c -1                               -> hold.extended forced=true reason=called actor=user:root
extend   c until=61 force token=none reason=called -> held deadline=90
history  c                                  -> held extended
extend   c by=1                             -> held deadline=91
entry    c -1                               -> hold.extended forced=false
extend   c forever=true force token=none reason=called -> invalid field=forever code=argument_unknown
# Confirm: whole or in parts, with every rung but that of the owner.
confirm  c 1 keep_rest token=none           -> not_owner
confirm  c 1 keep_rest force token=none     -> invalid field=reason code=reason_required
confirm  c 1 keep_rest force token=none reason=paid_by_transfer -> held held=2 confirmed=1
entry    c -1                               -> hold.partly_confirmed forced=true reason=paid_by_transfer
confirm  c 3 force token=none reason=paid_by_transfer -> quantity_exceeds_hold
confirm  c 4 force token=none reason=paid_by_transfer overage=if_available -> insufficient_capacity requested=2 available=1
confirm  c force token=none reason=paid_by_transfer entity=order:9 -> confirmed confirmed=3 entity=order:9
entry    c -1                               -> hold.confirmed forced=true reason=paid_by_transfer
confirm  c force token=none reason=again    -> already_confirmed
extend   c by=1 force token=none reason=again -> already_confirmed
# Retries: who forces asks for something else than who owns.
hold     d gpu 1 ttl=60                     -> held
confirm  d force token=none reason=paid op=o    -> confirmed
confirm  d force token=none reason=other op=o   -> confirmed replayed
confirm  d op=o                             -> operation_conflict
# Late is late, for an operator too.
release  @7 force token=none reason=gone    -> hold_not_found
return   d force token=none reason=refund   -> confirmed returned=1
hold     e gpu 1 ttl=60                     -> held
clock    60
confirm  e force token=none reason=late     -> hold_expired
extend   e by=60 force token=none reason=late -> hold_expired
hold     f gpu 1 ttl=30                     -> held
batch atomic
  extend f by=10 force token=none reason=called -> held deadline=100
  confirm f force token=none reason=called   -> confirmed
end
entry    f -1                               -> hold.confirmed forced=true
