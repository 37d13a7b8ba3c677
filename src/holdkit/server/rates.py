"""The rate limit: token buckets, one per API key and one per tenant, charged by what a request costs.

Theory of operation
-------------------

*What a request costs.* One token when it is admitted, before anything is read or stored. When its body is decoded, one token for each
further command, leg, item or pool that it has, one for each 4 KiB of the body, and `SEARCH_TOKENS` for a search through the seats of a
section. So a batch of 1,000 commands costs 1,000 tokens, in one request or in many. The legs of a stored set of budgets are charged when
the set is read; those of holds that a request names only by id, when it is answered. A tenant has a third bucket, of bytes, which pays
for every body that is read.

*Reserve, then settle.* What the body costs is charged before the kernel sees the request. If the request is refused before the kernel
sees it (it is malformed, not allowed, over a quota or a rate), it has cost its *plain* cost: one token, and a twentieth of a token for
each element that was decoded. `settle` gives the rest back.

*One request cannot lock out anybody.* Every cost counts things that were decoded, or is bounded here. One request takes at most one
burst from a bucket, and a bucket is at most one burst in debt, also when many requests that were admitted together are answered. An
operator's key of the default tenant is not limited where it administers the server (`Operation.administers`).

Every check takes constant time. The limits count in each server process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from ..wire.batches import Batch
from ..wire.history import PoolHistoryBody
from ..wire.holds import NewConsume, NewHoldInLine
from ..wire.items import (
    MAX_SEATS,
    AddItems,
    AddSeats,
    ConfirmItems,
    FreeItems,
    HoldItems,
    HoldSeats,
    ReadItems,
    ReleaseItems,
    RemoveSeats,
)
from ..wire.problems import Problem
from ..wire.windows import ReadWindows, Windowed
from .http_settings import KIB
from .settings import Settings

MOST_BUCKETS: Final = 10_000
"""Buckets of each kind that are kept: beyond that those that are full go, which changes nothing for anybody."""
TOKENS_PER_ELEMENT: Final = 0.05
"""Tokens that an element of a body costs if the request is refused before the kernel sees it."""
SEARCH_TOKENS: Final = 20
"""Tokens that a search through a section costs, or a change of its map: each reads all of its seats, which takes as long as some twenty
holds."""
BYTES_PER_TOKEN: Final = 4 * KIB
"""Bytes of a body that cost a token."""


class Cost(NamedTuple):
    """What a request costs."""

    commands: int = 1
    """About how many commands of one leg it is: what it may store."""
    elements: int = 0
    """Commands, legs, items and pools that were decoded."""
    tokens: int = 1
    """In all."""

    @property
    def plain(self) -> float:
        """Tokens that it costs if it is refused before the kernel sees it."""
        return min(self.tokens, 1 + TOKENS_PER_ELEMENT * self.elements)


class Bucket:
    """A token bucket: `level` tokens at the time `seen`. Below 0 it is in debt."""

    __slots__ = ("level", "seen")

    def __init__(self, level: float, seen: float) -> None:
        self.level, self.seen = level, seen


class RateLimit:
    """The buckets of all keys, or of all tenants: each gets `rate` tokens a second, and has at most `burst`."""

    def __init__(self, whose: str, rate: float, burst: int, unit: str = "tokens") -> None:
        self._whose, self._rate, self._burst, self._unit = whose, rate, burst, unit
        self._buckets: dict[str, Bucket] = {}

    def bucket(self, id: str, now: float) -> Bucket:
        """Return the bucket, filled up to this moment."""
        bucket = self._buckets.get(id)
        if bucket is None:
            if len(self._buckets) >= MOST_BUCKETS:
                self._drop_full(now)
            bucket = self._buckets[id] = Bucket(self._burst, now)
            return bucket
        bucket.level = min(self._burst, bucket.level + (now - bucket.seen) * self._rate)
        bucket.seen = now
        return bucket

    def check(self, bucket: Bucket, paid: float, cost: float) -> None:
        """Raise `Problem` unless the bucket has the rest of what a request costs that has `paid` a part; a full bucket has enough."""
        needed = min(cost, self._burst) - min(paid, self._burst)
        if bucket.level < needed:
            wait = (needed - bucket.level) / self._rate
            what = "this request" if cost <= 1 else f"this request costs {cost - paid:g} {self._unit}, and"
            raise Problem(
                429,
                "rate_exceeded",
                f"{self._whose} exceeds its rate of {self._rate:g} {self._unit} per second: {what} can be sent again in {wait:.3g} s",
                retry_after=wait,
            )

    def charge(self, bucket: Bucket, paid: float, cost: float) -> None:
        """Charge the rest of what a request costs that has `paid` a part; give back what it has paid beyond its cost."""
        bucket.level = max(-self._burst, bucket.level - (min(cost, self._burst) - min(paid, self._burst)))

    def _drop_full(self, now: float) -> None:
        rate, burst = self._rate, self._burst
        kept = {id: one for id, one in self._buckets.items() if one.level + (now - one.seen) * rate < burst}
        if len(kept) >= MOST_BUCKETS:  # nobody is spared who is in use; the one that was seen first starts anew
            del kept[min(kept, key=lambda id: kept[id].seen)]
        self._buckets = kept


class Rates:
    """All limits of a request's caller."""

    def __init__(self, settings: Settings) -> None:
        rates = settings.rates
        self._keys = RateLimit("the API key", rates.key, rates.key_burst)
        self._tenants = RateLimit("the tenant", rates.tenant, rates.tenant_burst)
        self._bytes = RateLimit("the tenant", rates.tenant_bytes, rates.tenant_bytes_burst, "bytes")

    def admit(self, key: str, tenant: str) -> None:
        """Charge the first token of a request, or raise `Problem`."""
        self._take(key, tenant, 0, 1)

    def read(self, tenant: str, size: int) -> None:
        """Charge the bytes of a body, or raise `Problem`."""
        if size:
            bucket = self._bytes.bucket(tenant, time.monotonic())
            self._bytes.check(bucket, 0, size)
            self._bytes.charge(bucket, 0, size)

    def reserve(self, key: str, tenant: str, cost: Cost) -> None:
        """Charge what a decoded body costs beyond the token that its request has paid. Raise `Problem` if the key or the tenant has
        too little; the request has then cost its plain cost."""
        if cost.tokens > 1:
            try:
                self._take(key, tenant, 1, cost.tokens)
            except Problem:
                self.charge(key, tenant, 1, cost.plain)
                raise

    def charge(self, key: str, tenant: str, paid: float, cost: float) -> None:
        """Charge both buckets the rest of what a request costs that has `paid` a part, whether or not they have it; give back what it
        has paid beyond its cost."""
        now = time.monotonic()
        self._keys.charge(self._keys.bucket(key, now), paid, cost)
        self._tenants.charge(self._tenants.bucket(tenant, now), paid, cost)

    def _take(self, key: str, tenant: str, paid: float, cost: float) -> None:
        """Charge both buckets the rest of what a request costs, or raise `Problem` and charge nothing."""
        now = time.monotonic()
        ours, theirs = self._keys.bucket(key, now), self._tenants.bucket(tenant, now)
        self._keys.check(ours, paid, cost)
        self._tenants.check(theirs, paid, cost)
        self._keys.charge(ours, paid, cost)
        self._tenants.charge(theirs, paid, cost)


def cost_of(body: object, size: int) -> Cost:
    """Return what a decoded body of `size` bytes costs."""
    kind = type(body)
    count = _ELEMENTS.get(kind)
    elements = 0 if count is None else count(body)
    # a count is the only cost that is a number in the body; it is not checked yet, and the kernel refuses one that is out of bounds
    commands = min(max(1, body.count), MAX_SEATS) if isinstance(body, HoldSeats) else max(1, elements)
    return Cost(commands, elements, commands + (SEARCH_TOKENS if kind in _SEARCHING else 0) + size // BYTES_PER_TOKEN)


def _commands(commands: Iterable[Any]) -> int:
    """Commands, and legs beyond the first of each."""
    elements = 0
    for command in commands:
        elements += len(getattr(command, "legs", None) or (command,))
    return elements


_SEARCHING: Final = frozenset((HoldSeats, AddSeats, RemoveSeats))
_ELEMENTS: Final[dict[type[Any], Callable[[Any], int]]] = {
    Batch: lambda body: _commands(body.commands),
    Windowed: lambda body: _commands(body.commands),
    NewHoldInLine: lambda body: len(body.legs or ()),
    NewConsume: lambda body: len(body.legs or ()),
    AddSeats: lambda body: len(body.seats),
    **dict.fromkeys(
        (AddItems, HoldItems, ConfirmItems, ReleaseItems, FreeItems, ReadItems), lambda body: len(body.ids)
    ),
    RemoveSeats: lambda body: len(body.ids or ()),
    **dict.fromkeys((ReadWindows, PoolHistoryBody), lambda body: len(body.pools)),
}
"""The elements that a body has. Bodies that are not listed cost one token, and those of their bytes."""
