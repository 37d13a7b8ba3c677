"""Fairness between tenants: shares of common units, and turns of costly requests.

Theory of operation
-------------------

*Shares.* There are `total` units: streams, or bytes of answers. A tenant may take more while it has, with what it asks for, at most as much
as is still free; an API key, at most half of that. So a key alone gets a third of the units and a tenant alone half of them; a
tenant that comes later gets half of the units that are still free, and as units are released and taken again, `n` tenants that take all
they can approach one part of `n + 1` each, with one part free for the next. A tenant, and a key, that has nothing yet gets its
first unit while any is free. Nothing is ever taken away from a holder. Callers that hold nothing take no memory.

*Turns.* A batch is one transaction and cannot be interrupted: other requests wait until it is decided and written. The kernel's queue takes
turns by tenant, but a tenant that sends its next batch at once would fill each moment that another needs to answer. So a *costly*
request waits for its turn here, before the kernel sees it. A request is costly if its body costs more than `rates.costly` tokens, or if a
request of its tenant touched that many legs in the last seconds. While another tenant is *active* (it has sent a change that is not
costly within the last second):

 1. One costly request runs at a time, in each process. Tenants take turns; the requests of a tenant keep their order.
 2. After a costly request there is a pause of `rates.pace` times its duration. So at a pace of 2 costly requests take a third of the time
    at most, and a short request waits for one of them at most. (No pause is longer than `LONGEST_PAUSE`.)
 3. A tenant may have `rates.max_costly` requests that wait. A request that is turned away has had no effect.

A tenant that is active alone passes without a turn.

Every step belongs to the event loop's thread, takes the same short time however many callers there are, and awaits nothing between a check
and its count. All numbers count in this process: two servers on one database have `total` units each.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Final

from ..wire.problems import Problem
from .settings import Settings

ACTIVE: Final = 1.0
"""Seconds for which a tenant is active after a request."""
REMEMBERED: Final = 10.0
"""Seconds for which the requests of a tenant are costly after one that touched many legs."""
MAX_REMEMBERED: Final = 10_000
LONGEST_PAUSE: Final = 0.5
"""Seconds: a request that took long because it waited itself must not keep all other costly ones waiting."""


class Shares:
    """A number of units, divided between the tenants and API keys that ask for them."""

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
        """Count units that are in use already, even beyond the total."""
        self.used += amount
        self._tenants[tenant] = self._tenants.get(tenant, 0) + amount
        self._keys[key] = self._keys.get(key, 0) + amount

    def release(self, tenant: str, key: str, amount: int = 1) -> None:
        """Give units back: exactly those that `take` gave to this tenant and key."""
        self.used -= amount
        for counts, name in ((self._tenants, tenant), (self._keys, key)):
            remaining = counts[name] - amount
            if remaining:
                counts[name] = remaining
            else:
                del counts[name]

    def used_by(self, tenant: str) -> int:
        """Return the units that a tenant has."""
        return self._tenants.get(tenant, 0)


class Pacing:
    """Which tenant was active last, and whose costly request runs."""

    def __init__(self, settings: Settings) -> None:
        rates = settings.rates
        self._costly, self._pace, self._most = rates.costly, rates.pace, rates.max_costly
        self._tenant, self._seen, self._other_seen = "", float("-inf"), float("-inf")
        """The tenant that was active last, when, and when any other was."""
        self._dear: dict[str, float] = {}
        """Tenants whose requests are costly whatever their bodies say, and until when."""
        self._busy = False
        self._free_at = float("-inf")
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Costly requests by tenant. The first tenant has the next turn."""
        self._timer: asyncio.TimerHandle | None = None

    def costly(self, tenant: str, cost: float) -> bool:
        """Return whether a change has to wait for its turn; if not, mark its tenant as active."""
        now = time.monotonic()
        if cost <= self._costly and (not self._dear or self._dear.get(tenant, now) <= now):
            if tenant != self._tenant:
                self._tenant, self._other_seen = tenant, self._seen
            self._seen = now
            return False
        return self._contended(tenant, now)

    def touched(self, tenant: str, legs: int) -> None:
        """Remember a tenant whose request has touched many legs without naming them."""
        if legs > self._costly:
            now = time.monotonic()
            if len(self._dear) >= MAX_REMEMBERED:
                self._dear = {name: until for name, until in self._dear.items() if until > now}
            self._dear[tenant] = now + REMEMBERED

    def _contended(self, tenant: str, now: float) -> bool:
        seen = self._seen if tenant != self._tenant else self._other_seen
        return self._pace > 0 and now - seen < ACTIVE

    async def begin(self, tenant: str) -> float:
        """Wait for a turn; return when it began. `end` must follow."""
        now = time.monotonic()
        if not self._busy and not self._waiting and now >= self._free_at:
            self._busy = True
            return now
        waiting = self._waiting.setdefault(tenant, deque())
        if len(waiting) >= self._most:
            detail = f"{self._most} large requests of this tenant are waiting already, while other tenants are served: retry later"
            raise Problem(503, "overloaded", detail, retry_after=1.0)
        turn = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        self._next()
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self._release(0.0)  # it had its turn already
            else:
                self._withdraw(tenant, turn)
            raise
        return time.monotonic()

    def _withdraw(self, tenant: str, turn: asyncio.Future[None]) -> None:
        """Take a cancelled request out of its line. (`_next` may have passed over it already.)"""
        waiting = self._waiting.get(tenant, deque())
        if turn in waiting:
            waiting.remove(turn)
            if not waiting:
                del self._waiting[tenant]

    def end(self, tenant: str, began: float) -> None:
        """End a turn: the costly request is answered, or has failed."""
        now = time.monotonic()
        pause = min(self._pace * (now - began), LONGEST_PAUSE)
        self._release(pause if self._contended(tenant, now) else 0.0)

    def _release(self, pause: float) -> None:
        self._busy = False
        self._free_at = time.monotonic() + pause
        self._next()

    def _next(self) -> None:
        """Let the next costly request begin, now or at the end of the pause."""
        if self._busy or not self._waiting or self._timer is not None:
            return
        pause = self._free_at - time.monotonic()
        if pause > 0:
            self._timer = asyncio.get_running_loop().call_later(pause, self._resume)
            return
        while self._waiting and not self._busy:
            tenant, waiting = next(iter(self._waiting.items()))
            del self._waiting[tenant]
            turn = waiting.popleft()
            if waiting:
                self._waiting[tenant] = waiting  # behind the others
            if not turn.done():  # else it was cancelled, and has not noticed yet
                self._busy = True
                turn.set_result(None)

    def _resume(self) -> None:
        self._timer = None
        self._next()
