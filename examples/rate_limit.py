"""An API's rate limit per client and minute: each request consumes its unit at once, and the next minute is a new bucket.

Shows: a window of the application's own type; `consume`, which needs no confirm; `closes`, so that old buckets are
swept away with what was consumed there, and a small table is always enough. Run it: `python examples/rate_limit.py`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NewType

from msgspec import Struct

import holdkit
from holdkit import Resource
from holdkit.testing import FakeClock

ApiClientId = NewType("ApiClientId", str)


class MinuteBucket(Struct, frozen=True):
    """A minute, counted from 1970."""

    minute: int

    @classmethod
    def at(cls, slot: int) -> MinuteBucket:
        """The minute of a slot, which is a microsecond."""
        return cls(slot // 60_000_000)


class Quota(Resource[ApiClientId, MinuteBucket]):
    """How many requests a client may make in a minute."""

    kind = "api.quota"

    def __init__(self, limits: dict[str, int]) -> None:
        self.limits = limits

    def capacity(self, tx: None, key: ApiClientId, window: MinuteBucket) -> int:
        """Unknown clients get nothing."""
        del tx, window
        return self.limits.get(key, 0)

    def closes(self, key: ApiClientId, window: MinuteBucket) -> datetime:
        """When the minute is over."""
        del key
        return datetime.fromtimestamp((window.minute + 1) * 60, UTC)


def main() -> None:
    """Two requests a minute."""
    clock = FakeClock()
    with holdkit.connect("memory://", clock=clock, limits=holdkit.Limits(max_pools=50)) as hk:
        quota = hk.resource(Quota({"acme": 2}))

        def allowed(client: str) -> bool:
            """Call this before every request."""
            try:
                quota.consume(ApiClientId(client), MinuteBucket.at(clock.now()))
            except holdkit.InsufficientCapacity:
                return False
            return True

        print([allowed("acme") for _ in range(3)], allowed("stranger"))
        clock.advance(60)
        print([allowed("acme") for _ in range(3)])
        for each in quota.pools(ApiClientId("acme")):
            print(each.window.minute, each.pool.consumed, "of", each.pool.total)
        for _ in range(1_000):
            clock.advance(60)
            assert allowed("acme"), "there is room for ever"
        hk.sweep()
        print([each.window.minute for each in quota.pools()])


if __name__ == "__main__":
    main()
