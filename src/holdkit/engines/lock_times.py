"""How long transactions keep what they have locked: counted in buckets, so that it takes the same room for ever."""

from __future__ import annotations

from bisect import bisect_left
from threading import Lock
from typing import Final

from msgspec import Struct

BOUNDS: Final = (0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Seconds: the upper bounds of the buckets. One more counts what took longer."""


class LockTimes(Struct, frozen=True):
    """Seconds from lock to commit, of the transactions in which this process has locked and committed: meanwhile no other transaction can
    change the same pools. A call in your own transaction (`tx=`) is not among them, because only you know when that ends; nor is a
    guarded batch on PostgreSQL, which locks and commits in one round trip, so that only the server could tell."""

    bounds: tuple[float, ...] = BOUNDS
    counts: tuple[int, ...] = (0,) * (len(BOUNDS) + 1)
    """Transactions by bucket: longer than the bound before, at most this bound; the last number counts all the others."""
    seconds: float = 0.0
    """The sum over all of them."""

    @property
    def transactions(self) -> int:
        """How many were counted."""
        return sum(self.counts)

    def __repr__(self) -> str:
        return f"<LockTimes transactions={self.transactions} seconds={self.seconds:.6g}>"

    def quantile(self, part: float) -> float:
        """Return the upper bound of the bucket that contains this part, from 0 to 1, of the transactions; 0 if there are none."""
        reached = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            reached += count
            if count and reached >= part * self.transactions:
                return bound
        return 0.0


class LockTimer:
    """Count lock times. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0

    def add(self, seconds: float) -> None:
        """Count one transaction."""
        with self._lock:
            self._counts[bisect_left(BOUNDS, seconds)] += 1
            self._seconds += seconds

    @property
    def times(self) -> LockTimes:
        """What was counted so far."""
        with self._lock:
            return LockTimes(BOUNDS, tuple(self._counts), self._seconds)
