"""A clock that moves only when told to."""

from __future__ import annotations

from threading import Lock

from ..core.model import SECOND, Slot


class FakeClock:
    """Replaces the wall clock: call it, or `now()`. Safe to move while other threads read it."""

    def __init__(self, start: Slot = 0) -> None:
        self._slot = start
        self._lock = Lock()

    def __call__(self) -> Slot:
        return self._slot

    def now(self) -> Slot:
        """Return the current slot."""
        return self._slot

    def advance(self, seconds: float) -> Slot:
        """Move forward by this many seconds (backwards if negative), to the microsecond."""
        with self._lock:
            self._slot += round(seconds * SECOND)
            return self._slot

    def set(self, slot: Slot) -> None:
        """Move to a slot, also to an earlier one."""
        with self._lock:
            self._slot = slot

    def __repr__(self) -> str:
        return f"FakeClock({self._slot})"
