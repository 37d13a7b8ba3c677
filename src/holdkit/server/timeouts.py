"""The timeouts of requests, with one timer for all of them.

`asyncio.timeout` schedules and cancels a timer for every request, which costs more than most of the checks before it. Here a
limit is an entry in a set. One timer looks at the set ten times a second while it is not empty, and cancels the tasks whose
limit has passed; so a limit may take effect a tenth of a second late. Limits may be nested: the inner one must be the shorter.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Final, Self

TICK: Final = 0.1
"""Seconds between two looks at the limits."""


class Timeouts:
    """The limits of the tasks of one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._limits: set[Limit] = set()
        self._timer: asyncio.TimerHandle | None = None

    def limit(self, seconds: float) -> Limit:
        """A context: if its task is still in it after so long, the task is cancelled and the context raises `TimeoutError`."""
        return Limit(self, self._loop.time() + seconds)

    def add(self, limit: Limit) -> None:
        """Watch a limit."""
        self._limits.add(limit)
        if self._timer is None:
            self._timer = self._loop.call_later(TICK, self._check)

    def discard(self, limit: Limit) -> None:
        """Watch it no longer."""
        self._limits.discard(limit)

    def _check(self) -> None:
        now = self._loop.time()
        for limit in self._limits:
            if limit.until <= now and not limit.passed:
                limit.passed = True
                limit.task.cancel()
        self._timer = self._loop.call_later(TICK, self._check) if self._limits else None


class Limit:
    """The limit of one task. Like `asyncio.timeout`, it turns the cancellation that it caused into `TimeoutError`, and no other:
    a task that was cancelled from elsewhere too stays cancelled."""

    __slots__ = ("_before", "_timeouts", "passed", "task", "until")

    task: asyncio.Task[Any]

    def __init__(self, timeouts: Timeouts, until: float) -> None:
        self._timeouts, self.until, self.passed = timeouts, until, False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self.task, self._before = task, task.cancelling()
        self._timeouts.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._timeouts.discard(self)
        if self.passed and self.task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error
