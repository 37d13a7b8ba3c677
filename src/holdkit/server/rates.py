"""The rate limit: token buckets, one per API key and one per tenant, charged by what a request costs.

A request costs one token when it is admitted, before anything is read or stored. What it costs beyond that is known only when its
body is decoded: a command costs one token, and one more for each leg, item or pool beyond its first. So a batch of 1,000 commands
costs 1,000 tokens, in one request or in many. That is charged before the kernel sees the request. A request that is refused then has
cost the work that was done: its first token, and a twentieth of a token for each token's worth that was decoded. The legs of holds that
a request names only by id are known when it is answered, and charged then: the next request waits for them.

A request that costs more than a whole burst is admitted when the bucket is full, and leaves it in debt. Every check takes constant
time. The limits count in each server process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Final

from ..wire.batches import Batch, BatchConsume, BatchHold
from ..wire.holds import NewConsume, NewHoldInLine
from ..wire.items import AddItems, BestItems, ReadItems, ReopenItems, ReserveItems
from ..wire.problems import Problem
from ..wire.windows import ReadWindows, WindowConsume, Windowed, WindowHold
from .settings import Settings

MOST_BUCKETS: Final = 10_000
"""Buckets of each kind that are kept: beyond that those that are full go, which changes nothing for anybody."""
DECODED: Final = 0.05
"""The share of its cost that a request has cost when it is refused after its body was decoded."""


class Bucket:
    """A token bucket: `level` tokens at the time `seen`. Below 0 it is in debt."""

    __slots__ = ("level", "seen")

    def __init__(self, level: float, seen: float) -> None:
        self.level, self.seen = level, seen


class RateLimit:
    """The buckets of all keys, or of all tenants: so many tokens a second, at most `burst` at once."""

    def __init__(self, whose: str, rate: float, burst: int) -> None:
        self._whose, self._rate, self._burst = whose, rate, burst
        self._buckets: dict[str, Bucket] = {}

    def bucket(self, id: str, now: float) -> Bucket:
        """The bucket as it is now."""
        found = self._buckets.get(id)
        if found is None:
            if len(self._buckets) >= MOST_BUCKETS:
                self._drop_full(now)
            found = self._buckets[id] = Bucket(self._burst, now)
            return found
        level = found.level + (now - found.seen) * self._rate
        found.level = min(self._burst, level)
        found.seen = now
        return found

    def check(self, bucket: Bucket, cost: float) -> None:
        """Raise unless the bucket has so many tokens, or is full but for the first token of the request."""
        needed = min(cost, max(1, self._burst - 1))
        if bucket.level < needed:
            wait = (needed - bucket.level) / self._rate
            what = "this request" if cost <= 1 else f"this request costs {cost:g} tokens, and"
            raise Problem(
                429,
                "rate_exceeded",
                f"{self._whose} exceeds its rate of {self._rate:g} tokens per second: {what} can be sent again in {wait:.3g} s",
                retry_after=wait,
            )

    def _drop_full(self, now: float) -> None:
        rate, burst = self._rate, self._burst
        kept = {id: one for id, one in self._buckets.items() if one.level + (now - one.seen) * rate < burst}
        if len(kept) >= MOST_BUCKETS:  # nobody is spared who is in use; the one that was seen first starts anew
            del kept[min(kept, key=lambda id: kept[id].seen)]
        self._buckets = kept


class Rates:
    """Both limits of a request's caller."""

    def __init__(self, settings: Settings) -> None:
        self._keys = RateLimit("the API key", settings.rate, settings.burst)
        self._tenants = RateLimit("the tenant", settings.tenant_rate, settings.tenant_burst)

    def charge(self, key: str, tenant: str, cost: float, *, refused: float = 0.0) -> None:
        """Take so many tokens from both buckets. If one has too few, raise, and take only what the request has cost so far."""
        now = time.monotonic()
        ours, theirs = self._keys.bucket(key, now), self._tenants.bucket(tenant, now)
        try:
            self._keys.check(ours, cost)
            self._tenants.check(theirs, cost)
        except Problem:
            ours.level -= refused
            theirs.level -= refused
            raise
        ours.level -= cost
        theirs.level -= cost

    def charge_body(self, key: str, tenant: str, body: object) -> int:
        """Charge what a decoded body costs beyond the token that its request has paid; returns what it costs in all."""
        cost = weight(body)
        if cost > 1:
            self.charge(key, tenant, cost - 1, refused=DECODED * (cost - 1))
        return cost

    def charge_answer(self, key: str, tenant: str, legs: int) -> None:
        """Charge the legs of holds that the request named by id: afterwards, so that it may leave the buckets in debt."""
        now = time.monotonic()
        self._keys.bucket(key, now).level -= legs
        self._tenants.bucket(tenant, now).level -= legs


def weight(body: object) -> int:
    """About how many commands of one leg a body is."""
    weigh = _WEIGHTS.get(type(body))
    return 1 if weigh is None else max(1, weigh(body))


def _commands(commands: Iterable[Any]) -> int:
    """Commands, and legs beyond the first of each."""
    cost = 0
    for command in commands:
        cost += len(command.legs) if isinstance(command, _PLACING) and command.legs else 1
    return cost


_PLACING: Final = (BatchHold, BatchConsume, WindowHold, WindowConsume)
_WEIGHTS: Final[dict[type[Any], Callable[[Any], int]]] = {
    Batch: lambda body: _commands(body.commands),
    Windowed: lambda body: _commands(body.commands),
    NewHoldInLine: lambda body: len(body.legs or ()),
    NewConsume: lambda body: len(body.legs or ()),
    AddItems: lambda body: len(body.ids or body.seats or ()),
    **dict.fromkeys((ReopenItems, ReserveItems, ReadItems), lambda body: len(body.ids)),
    BestItems: lambda body: body.count,
    ReadWindows: lambda body: len(body.pools),
}
"""The tokens that a body costs in all. Bodies that are not listed cost one."""
