"""Shares: a bound that many callers have in common, divided so that none of them can take all of it.

Theory of operation. There are `total` units: streams, requests, bytes of answers. A tenant may take more as long as it has, with
what it asks for, at most as much as is still free; an API key, at most half of that. So a key alone gets a third of the units and
a tenant alone half of them; a tenant that comes later gets half of what the others have left, and as units are released and taken
again, `n` tenants that take all they can approach one part of `n + 1` each, with one part free for the next. A tenant, and a key,
that has nothing yet gets its first unit while any is free. Nothing is ever taken away from a holder.

Every step takes the same short time, however many callers there are, and awaits nothing, so no other task can come between the
check and the count. Callers that hold nothing take no memory. All numbers count in this process: two servers on one database have
`total` units each.
"""

from __future__ import annotations


class Shares:
    """So many units in all, divided between the tenants and API keys that ask for them."""

    __slots__ = ("_keys", "_tenants", "divided", "total", "used")

    def __init__(self, total: int, *, divided: bool = True) -> None:
        self.total, self.divided = total, divided
        """`divided`: false where all callers are one, as on a server that asks for no API key: then only `total` counts."""
        self.used = 0
        self._tenants: dict[str, int] = {}
        self._keys: dict[str, int] = {}

    def take(self, tenant: str, key: str, amount: int = 1) -> bool:
        """Take units, or return False: too few are free, or the tenant or the API key has its share."""
        free = self.total - self.used
        if amount > free:
            return False
        of_tenant, of_key = self._tenants.get(tenant, 0), self._keys.get(key, 0)
        if self.divided:
            if of_tenant and of_tenant + amount > free:
                return False
            if of_key and 2 * (of_key + amount) > free:
                return False
        self.add(tenant, key, amount)
        return True

    def add(self, tenant: str, key: str, amount: int = 1) -> None:
        """Count units that are in use in any case, whether or not there was room for them."""
        self.used += amount
        self._tenants[tenant] = self._tenants.get(tenant, 0) + amount
        self._keys[key] = self._keys.get(key, 0) + amount

    def release(self, tenant: str, key: str, amount: int = 1) -> None:
        """Give units back: exactly those that `take` gave to this tenant and key."""
        self.used -= amount
        for counts, name in ((self._tenants, tenant), (self._keys, key)):
            left = counts[name] - amount
            if left:
                counts[name] = left
            else:
                del counts[name]

    def used_by(self, tenant: str) -> int:
        """The units that a tenant has."""
        return self._tenants.get(tenant, 0)
