"""6. Seats: the best two, or those that the customer has chosen, with a limit for each customer."""

import holdkit
from holdkit import Seat, items

hk = holdkit.connect("memory://")
hk.create_pool("show:42", total=100, per_account=4)
hk.seats.add([Seat(f"42/A{n}", "42/stalls", "A", n) for n in range(1, 9)])
two = hk.seats.hold(2, section="42/stalls", ttl="10m")
print(two.items)
hk.confirm(two, entity="order:9")
cart = hk.hold([items("42/A1"), ("show:42", 1)], ttl="10m", account="customer:7")
try:
    hk.items.hold(["42/A1", "42/A2"], ttl="10m")
except holdkit.ItemsTaken as no:
    print(no.title)
hk.release(cart)
hk.items.free(["42/A4"], reason="refunded")
print([item.state for item in hk.items.get(["42/A1", "42/A4", "42/A5"])])
