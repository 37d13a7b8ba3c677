"""Several ways to the same thing, tried side by side; the first that works is taken.

Each attempt runs on a thread of its own, because what it waits for may not be interruptible: the look-up of a host's name, a
server that accepts a connection and says nothing more. Nobody waits for a thread: one that comes too late drops what it has.

The favourite begins. The others begin `STAGGER` seconds later, or as soon as it has failed. With more than one, whoever has failed
tries again after a pause, until time is up: during a failover every host fails for a moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

T = TypeVar("T")

STAGGER: Final = 0.25
"""Seconds that the favourite has for itself, and that a first answer waits for a better one."""
PAUSES: Final = (0.1, 0.2, 0.4)
"""Seconds before the second, the third and every later attempt."""


class NobodyCame(Exception):
    """No attempt has worked in time; `errors` has the last one of each that failed."""

    def __init__(self, errors: dict[int, Exception]) -> None:
        super().__init__("; ".join(str(error) for error in errors.values()) or "no answer in time")
        self.errors = errors


class Race(Generic[T]):
    """One race. `drop` gets what came too late."""

    def __init__(self, attempts: Sequence[Callable[[], T]], drop: Callable[[T], None]) -> None:
        self._attempts, self._drop = attempts, drop
        self._told: SimpleQueue[tuple[int, T | None, Exception | None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._over = False
        self._under_way: set[int] = set()
        self._tries = [0] * len(attempts)
        self._due: dict[int, float] = {}
        self._errors: dict[int, Exception] = {}

    def run(self, seconds: float, *, best: Callable[[T], float] | None = None) -> T:
        """What the first attempt that worked has given; with `best`, all begin at once, those that follow closely count too,
        and the greatest is taken. Raises `NobodyCame`."""
        now = time.monotonic()
        end = now + seconds
        self._due = {index: now + (STAGGER if index and best is None else 0.0) for index in range(len(self._attempts))}
        found: list[T] = []
        try:
            while not self._decided(found, end, best is not None):
                self._begin_due()
                told = self._hear(end)
                if told is not None and told[1] is not None:
                    found.append(told[1])
                    end = min(end, time.monotonic() + STAGGER)
                elif told is not None and told[2] is not None:
                    self._failed(told[0], told[2])
            if not found:
                raise NobodyCame(dict(sorted(self._errors.items())))
            chosen = found[0] if best is None else max(found, key=best)
            found.remove(chosen)
            return chosen
        finally:
            for result in (*found, *self._end()):
                self._drop(result)

    def _decided(self, found: list[T], end: float, thorough: bool) -> bool:
        if found and not (thorough and self._under_way):
            return True
        return time.monotonic() >= end or not (self._under_way or self._due)

    def _begin_due(self) -> None:
        now = time.monotonic()
        for index in [index for index, when in self._due.items() if when <= now]:
            del self._due[index]
            self._under_way.add(index)
            self._tries[index] += 1
            threading.Thread(target=self._try, args=(index,), name="holdkit-opening", daemon=True).start()

    def _hear(self, end: float) -> tuple[int, T | None, Exception | None] | None:
        try:
            told = self._told.get(timeout=max(0.0, min([end, *self._due.values()]) - time.monotonic()))
        except Empty:
            return None
        self._under_way.discard(told[0])
        return told

    def _failed(self, index: int, error: Exception) -> None:
        self._errors[index] = error
        now = time.monotonic()
        for other in self._due:
            if not self._tries[other]:
                self._due[other] = now  # the favourite has failed: nobody waits for it any more
        if len(self._attempts) > 1:
            self._due[index] = now + PAUSES[min(self._tries[index], len(PAUSES)) - 1]

    def _try(self, index: int) -> None:
        result: T | None = None
        failed: Exception | None = None
        try:
            result = self._attempts[index]()
        except Exception as error:  # noqa: BLE001 - told to whoever waits
            failed = error
        with self._lock:
            over = self._over
            if not over:
                self._told.put((index, result, failed))
        if over and result is not None:
            self._drop(result)

    def _end(self) -> list[T]:
        """From now on everybody is too late; what has come and was not heard is given."""
        with self._lock:
            self._over = True
        late: list[T] = []
        while not self._told.empty():
            result = self._told.get()[1]
            if result is not None:
                late.append(result)
        return late
