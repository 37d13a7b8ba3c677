"""10. An operator: what passes a ticket or a limit is on `hk.admin`, has a reason, and is in the journal."""

import holdkit

hk = holdkit.connect("memory://")
hk.create_pool("show:42", total=4, per_account=1)
lost = hk.hold("show:42", ttl="1h", account="bob")
with holdkit.context(actor="user:desk"):
    hk.admin.release(lost.id, reason="card reported stolen")
    hk.admin.hold("show:42", 2, ttl="1h", account="ann", reason="school class")
    hk.admin.resize_pool("show:42", 2)
    hk.admin.change_limits(retention="90d", reason="audit")
print(hk.admin.limits().retention)
for entry in hk.journal.search(actor="user:desk"):
    print(entry.action, entry.reason)
