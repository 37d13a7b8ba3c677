"""1. Hold two seats, pay, and see that the books are right."""

import holdkit

hk = holdkit.connect("sqlite:///holds.db")
hk.create_pool("show:42", total=3)
ann = hk.hold("show:42", 2, ttl="5m", op="order-81")
again = hk.hold("show:42", 2, ttl="5m", op="order-81")  # a retry after a lost reply: the same hold
print(again.id == ann.id, again.replayed)
try:
    hk.hold("show:42", 2, ttl="5m")
except holdkit.InsufficientCapacity as no:
    print(no.requested, no.available)
hk.confirm(ann, entity="order:81")
print(hk.pool("show:42").available, hk.admin.verify().ok)
