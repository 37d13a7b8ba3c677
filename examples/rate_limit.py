"""An API's rate limit per client and minute: what a request takes is consumed at once, and the next minute is a new bucket.

Shows: a window of the application's own type; `consume`, for what needs no second thought; old buckets are only history. Run
it: `python examples/rate_limit.py`.
"""

from __future__ import annotations

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
        """Nothing for strangers."""
        del tx, window
        return self.limits.get(key, 0)


def main() -> None:
    """Two requests a minute."""
    clock = FakeClock()
    with holdkit.connect("memory://", clock=clock) as hk:
        quota = hk.resource(Quota({"acme": 2}))

        def allowed(client: str) -> bool:
            """Ask before every request."""
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


if __name__ == "__main__":
    main()
