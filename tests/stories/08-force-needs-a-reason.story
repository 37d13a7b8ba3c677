# A control plane may release without the token, if it says why; the journal shows that it was forced.
pool     gpu total=2
hold     a gpu 2 ttl=60                     -> held
release  a force token=none                 -> invalid field=reason code=reason_required
release  a 1 force token=none reason=admin_override actor=user:root   -> held held=1
entry    a -1                               -> hold.partly_released forced=true reason=admin_override actor=user:root
release  a force token=none reason=admin_override   -> released
entry    a -1                               -> hold.released forced=true
release  a force token=none reason=again    -> already_released
hold     b gpu 1 ttl=60                     -> held
release  b                                  -> released
entry    b -1                               -> hold.released forced=false
