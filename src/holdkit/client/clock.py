"""The server's clock, as far as its answers tell: deadlines are the server's, so what is left of one is counted by this clock,
whatever the clock of this machine says. Nothing is decided by it."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from ..core.model import SECOND, Slot
from ..kernel.spelling import moment


class ServerClock:
    """What the server said last, and how long ago that was."""

    def __init__(self) -> None:
        self._heard: tuple[Slot, float, float] | None = None

    @property
    def known(self) -> bool:
        """Whether the server has said anything yet."""
        return self._heard is not None

    def heard(self, at: datetime, took: timedelta) -> None:
        """An answer was given at this time, and the request took so long."""
        seconds = took.total_seconds()
        self._heard = (moment(at), time.monotonic() - seconds, time.time() - seconds)

    def now(self) -> Slot:
        """The server's slot, ahead by at most what the last request took: so nothing looks alive longer than it is. (A machine
        that slept counts the time by one of its clocks only.)"""
        if self._heard is None:
            return time.time_ns() // 1_000
        slot, steady, wall = self._heard
        return slot + int(max(time.monotonic() - steady, time.time() - wall) * SECOND)
