"""3. Sign up with a link by mail: an address belongs to one account."""

import holdkit

hk = holdkit.connect("memory://")
link = hk.claims.hold("email", "ann@example.com", ttl="24h").ticket  # goes into the mail
try:
    hk.claims.hold("email", "ann@example.com", ttl="24h")
except holdkit.AlreadyClaimed as no:
    print(no.title)
hk.confirm(link, entity="user:7")
print(hk.claims.get("email", "ann@example.com"))
hk.claims.free("email", "ann@example.com", reason="account closed")
