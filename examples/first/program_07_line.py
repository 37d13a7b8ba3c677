"""7. A waiting line: units that come back are offered to the one who is next."""

import holdkit
from holdkit.testing import FakeClock

clock = FakeClock()
hk = holdkit.connect("memory://", clock=clock)
hk.create_pool("show:42", total=1)
ann = hk.hold("show:42", ttl="10m")
bob = hk.join("show:42", ttl="2h", offer_ttl="5m")
print(bob.state, hk.place(bob))
try:
    hk.hold("show:42", ttl="10m")
except holdkit.Unavailable as no:
    print(no.title)
hk.release(ann)
offer = hk.get(bob)
print(offer.state, offer.deadline - offer.held_at if offer.deadline and offer.held_at else None)
hk.confirm(bob, entity="order:9")
