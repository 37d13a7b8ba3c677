"""Clocks: this machine's wall clock, a steady clock that also runs while the machine is suspended, and an estimate of a server's
clock.

An engine decides by exactly one clock, and the times that users see come from the same one. If it is a server's clock, this
process cannot read it without a round trip. Every round trip gives bounds: the server read its clock after the request was sent
and before the answer arrived. `RemoteClock` keeps the bounds on the difference between the two clocks, and adds the steady clock
to them between round trips. Its time is never behind the server's, as long as the two clocks run at nearly the same rate. So the
time left until a deadline is understated, by at most the duration of the quickest recent round trip, and never overstated.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from ..core.model import SECOND, Slot

Clock: TypeAlias = Callable[[], Slot]
"""A function that reads the clock by which an engine decides."""

DRIFT: Final = 500e-6
"""Seconds by which two clocks may diverge per second: the fastest rate at which operating systems slew a clock."""


def wall_clock() -> Slot:
    """Return the machine's time in microseconds UTC."""
    return time.time_ns() // 1000


def _steady() -> Callable[[], float]:
    for name in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):  # on macOS, CLOCK_MONOTONIC also runs during suspend
        source = getattr(time, name, None)
        if source is not None:
            return partial(time.clock_gettime, source)
    return time.monotonic


steady: Final = _steady()
"""Seconds since an arbitrary moment, by a clock that is never set, and that also runs during suspend where there is such a clock."""


class _Bounds(NamedTuple):
    """Bounds on the server's clock minus our steady clock, in slots, at the moment `at` of the steady clock."""

    at: float
    least: float
    most: float

    def later(self, at: float) -> _Bounds:
        """Return the bounds at a later moment: wider, because the clocks may have diverged."""
        drift = max(0.0, at - self.at) * DRIFT * SECOND
        return _Bounds(at, self.least - drift, self.most + drift)


class RemoteClock:
    """An estimate of a server's clock, from the answers of the server. Safe to share between threads."""

    def __init__(self) -> None:
        self._known: _Bounds | None = None

    @property
    def known(self) -> bool:
        """Whether the server has told its time yet."""
        return self._known is not None

    @property
    def age(self) -> float:
        """Seconds since the server last told its time."""
        return float("inf") if self._known is None else steady() - self._known.at

    def heard(self, slot: Slot, began: float) -> None:
        """Take in a reading of the server's clock, from a round trip that began at `began` (by `steady`) and has just ended."""
        now = steady()
        drift = (now - began) * DRIFT * SECOND
        fresh = _Bounds(now, slot - now * SECOND - drift, slot - began * SECOND + drift)
        before = self._known and self._known.later(now)
        if before and fresh.least <= before.most and before.least <= fresh.most:
            fresh = _Bounds(now, max(fresh.least, before.least), min(fresh.most, before.most))
        self._known = fresh  # if the two do not overlap, a clock was set: the old bounds are void

    def __call__(self) -> Slot:
        """Return the server's slot, or a little later; this machine's until the server has told its time."""
        known = self._known
        if known is None:
            return wall_clock()
        at = steady()
        return int(known.later(at).most + at * SECOND) + 1


def lag_of(clock: Clock) -> float:
    """Return the seconds by which a server's clock is ahead of this machine's, to the millisecond; 0 if the engine decides by this
    machine's clock, or by an injected one."""
    if not isinstance(clock, RemoteClock) or not clock.known:
        return 0.0
    return round((clock() - wall_clock()) / SECOND, 3)


class Reading(NamedTuple):
    """The engine's time when an answer was given. An object that tells the time left computes it from there."""

    slot: Slot
    since: float | None
    """When it was read, by `steady`. None for an injected clock: then time moves only when that clock moves."""

    def now(self) -> Slot:
        """Return the slot that the engine's clock has reached by now, at least."""
        return self.slot if self.since is None else self.slot + int((steady() - self.since) * SECOND)


def read(clock: Clock, *slots: Slot) -> Reading:
    """Return the later of a clock and the slots of pools: time never moves backwards along a pool, and no answer may say that it did."""
    real = clock is wall_clock or isinstance(clock, RemoteClock)
    return Reading(max(clock(), *slots, 0), steady() if real else None)
