"""Clocks: the machine's own, one that goes on in suspend, and that of a server, as its answers tell it.

An engine decides by one authority, and users are told by the same one. Where the authority is a server's clock, nobody here
can read it without asking. Each exchange with the server brackets one reading of it: it was read after the exchange began
and before it ended. `RemoteClock` keeps those brackets and counts on from them, between exchanges by a clock that goes on in
suspend. It is never behind the server's clock, as long as the two run at nearly the same rate: what is left of a deadline
is understated by at most the time that the quickest recent exchange took, and never overstated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from ..core.model import SECOND, Slot

Clock: TypeAlias = Callable[[], Slot]
"""Reads the engine's one authority on time."""

DRIFT: Final = 500e-6
"""How far two clocks may run apart, per second: as fast as any machine slews its own."""


def wall_clock() -> Slot:
    """Microseconds UTC."""
    return time.time_ns() // 1000


def _steady() -> Callable[[], float]:
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):  # the second one goes on in suspend on macOS
        source = getattr(time, name, None)
        if source is not None:
            return partial(time.clock_gettime, source)
    return time.monotonic


steady: Final = _steady()
"""Seconds since some moment, by a clock that nobody sets and that goes on in suspend, where there is one."""


class _Bracket(NamedTuple):
    """The server's clock less ours, in slots, when ours said `at`: between these two."""

    at: float
    least: float
    most: float

    def later(self, at: float) -> _Bracket:
        """What is left of it after a while: the two may have run apart."""
        drift = max(0.0, at - self.at) * DRIFT * SECOND
        return _Bracket(at, self.least - drift, self.most + drift)


class RemoteClock:
    """A server's clock, as far as its answers tell. Safe to share between threads."""

    def __init__(self) -> None:
        self._known: _Bracket | None = None

    @property
    def known(self) -> bool:
        """Whether the server has said anything yet."""
        return self._known is not None

    @property
    def age(self) -> float:
        """Seconds since the server last said anything."""
        return float("inf") if self._known is None else steady() - self._known.at

    def heard(self, slot: Slot, began: float) -> None:
        """The server's clock said this, in an exchange that began then (by `steady`) and has just ended."""
        now = steady()
        drift = (now - began) * DRIFT * SECOND
        fresh = _Bracket(now, slot - now * SECOND - drift, slot - began * SECOND + drift)
        before = self._known and self._known.later(now)
        if before and fresh.least <= before.most and before.least <= fresh.most:
            fresh = _Bracket(now, max(fresh.least, before.least), min(fresh.most, before.most))
        self._known = fresh  # where the two do not meet, somebody has set a clock: what was known counts no more

    def __call__(self) -> Slot:
        """The server's slot, never behind it; by this machine's clock as long as the server has said nothing."""
        known = self._known
        if known is None:
            return wall_clock()
        at = steady()
        return int(known.later(at).most + at * SECOND) + 1


def lag_of(clock: Clock) -> float:
    """Seconds by which an authority elsewhere is ahead of this machine's clock, to the millisecond; 0 where the authority is
    this machine's own clock, or one that was injected."""
    if not isinstance(clock, RemoteClock) or not clock.known:
        return 0.0
    return round((clock() - wall_clock()) / SECOND, 3)


class Reading(NamedTuple):
    """What the authority said when an answer was given: whoever keeps the answer counts on from there."""

    slot: Slot
    since: float | None
    """When that was, by `steady`. None: by an injected clock, which alone moves time."""

    def now(self) -> Slot:
        """At least so late it is by now."""
        return self.slot if self.since is None else self.slot + int((steady() - self.since) * SECOND)


def read(clock: Clock, *slots: Slot) -> Reading:
    """The later of a clock and the slots of pools: time never moves backwards along a pool, so nobody is told that it did."""
    real = clock is wall_clock or isinstance(clock, RemoteClock)
    return Reading(max(clock(), *slots, 0), steady() if real else None)
