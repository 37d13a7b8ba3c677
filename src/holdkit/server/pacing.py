"""Pacing: the costly requests of all tenants together leave most of the server's time to the others.

Theory of operation
-------------------

A batch is one transaction, and cannot be interrupted: whoever comes meanwhile waits until it is decided and written. The kernel's queue
takes turns by tenant, but it always has work for whoever is there: a tenant that sends its next batch at once would fill every
moment that a tenant which sends one short request after the other takes to answer.

So a *costly* request waits for its turn here, before the kernel sees it. A request is costly if its body costs more than `costly` tokens
(`rates`), or if a request of its tenant turned out to touch so many legs in the last seconds. While another tenant is *active*, which
means that it has sent a request that is not costly within the last second:

 1. One costly request runs at a time, in each process. Tenants take turns; the requests of a tenant keep their order.
 2. After a costly request there is a pause as long as it took, times `pace`. So at a pace of 2 costly requests take a third of the time
    at most, and a short request waits for one of them at most. (No pause is longer than `LONGEST_PAUSE`.)
 3. A tenant may have `max_costly` requests that wait. Nothing of a request that is turned away was done.

A tenant that is active alone waits for nobody and passes without a turn. Everything here belongs to the event loop's thread, and takes
constant time for a request that is not costly.
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
"""Seconds for which the requests of a tenant are costly after one that turned out to be."""
MOST_REMEMBERED: Final = 10_000
LONGEST_PAUSE: Final = 0.5
"""Seconds: a request that took long because it waited itself must not keep all other costly ones waiting."""


class Pacing:
    """Who was active last, and whose costly request runs."""

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
        """Whether a request has to wait for its turn; if not, its tenant is active."""
        now = time.monotonic()
        if cost <= self._costly and (not self._dear or self._dear.get(tenant, now) <= now):
            if tenant != self._tenant:
                self._tenant, self._other_seen = tenant, self._seen
            self._seen = now
            return False
        return self._contended(tenant, now)

    def touched(self, tenant: str, legs: int) -> None:
        """A request of the tenant has touched so many legs that it did not name."""
        if legs > self._costly:
            now = time.monotonic()
            if len(self._dear) >= MOST_REMEMBERED:
                self._dear = {one: until for one, until in self._dear.items() if until > now}
            self._dear[tenant] = now + REMEMBERED

    def _contended(self, tenant: str, now: float) -> bool:
        seen = self._seen if tenant != self._tenant else self._other_seen
        return self._pace > 0 and now - seen < ACTIVE

    async def begin(self, tenant: str) -> float:
        """Wait for a turn; returns when it began. `end` must follow."""
        now = time.monotonic()
        if not self._busy and not self._waiting and now >= self._free_at:
            self._busy = True
            return now
        waiting = self._waiting.setdefault(tenant, deque())
        if len(waiting) >= self._most:
            raise Problem(
                503,
                "overloaded",
                f"{self._most} large requests of this tenant are waiting already, while other tenants are served: retry later",
                retry_after=1.0,
            )
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
        """Its request was cancelled. (`_next` may have passed over it already.)"""
        waiting = self._waiting.get(tenant, deque())
        if turn in waiting:
            waiting.remove(turn)
            if not waiting:
                del self._waiting[tenant]

    def end(self, tenant: str, began: float) -> None:
        """The costly request is answered, or has failed."""
        now = time.monotonic()
        pause = min(self._pace * (now - began), LONGEST_PAUSE)
        self._release(pause if self._contended(tenant, now) else 0.0)

    def _release(self, pause: float) -> None:
        self._busy = False
        self._free_at = time.monotonic() + pause
        self._next()

    def _next(self) -> None:
        """Let the next one begin, now or at the end of the pause."""
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
