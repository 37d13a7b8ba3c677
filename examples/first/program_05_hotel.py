"""5. Nights of a hotel: all of a stay or nothing, with a voucher that is used once."""

from datetime import date

import holdkit

hk = holdkit.connect("memory://")
inn = hk.calendar("inn", {"double": 10, "parking": 1}, zone="Europe/Lisbon")
begin, end = date(2027, 7, 1), date(2027, 7, 4)
stay = inn.hold({"double": 1, "parking": 1}, begin, end, ttl="15m")
hk.confirm(stay, entity="booking:9")
try:
    inn.hold({"double": 1, "parking": 1}, begin, end, ttl="15m")
except holdkit.InsufficientCapacity as no:
    print([short.name for short in no.shortfalls])
hk.return_units(stay, quantity=inn.legs("double", date(2027, 7, 3), end), reason="left early")
hk.hold([inn.legs("double", begin, end), holdkit.claim("voucher", "X7")], ttl="15m")
print(hk.claims.is_taken("voucher", "X7"))
