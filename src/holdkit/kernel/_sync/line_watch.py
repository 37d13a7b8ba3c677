# Generated from ../_async/line_watch.py by tools/gen_sync.py: do not edit.
"""Watching lines: wakes the blocked calls of a process when units are offered to them, and feeds lines that nobody else feeds.

Theory of operation. One worker serves all blocked calls of a kernel; it runs while there are any. It looks after every commit that it
hears of (of this process, or of another one where the engine can tell), at the next deadline of each pool that is waited for, and
every `LOOK` seconds. One look is one read of the pools; only if a pool has changed, it reads the holds that wait there, in the order
of the line, up to the first that still waits: nobody behind that one can have been offered anything, unless the line lets some pass.
So a commit that concerns other pools costs one read, however many calls are blocked. A process whose calls are all far from the front
of their lines rests before it looks again (`STEP` for each that is ahead), else many processes would all read after every commit.

Units may be free although somebody waits: a deadline has passed, or a caller's own transaction has released them. Then the worker
sends a `FeedLine`, and again only after the pool has changed, because whoever is first in line may ask for more than is free.

Nothing is missed: a call is added before the pool is read, and added to a line it has the line examined. If the engine fails, the
worker looks again later; a blocked call also learns from its own renewals what became of its hold.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ...core.commands import FeedLine, Group
from ...core.model import SECOND, Key, Pool, Slot, State, StoredHold
from ...core.reading import NextDeadline
from ...errors import HoldkitError
from ..workers import Signal

if TYPE_CHECKING:
    from .executor import Executor

log = logging.getLogger("holdkit")

LOOK = 1.0
"""Seconds between two looks at the latest."""
STEP = 0.005
"""Seconds to rest for each that is ahead of the first blocked call of this process."""
REST = 0.5
"""Seconds to rest at most."""
LATE = 0.001
"""Seconds after a deadline at which a look finds it passed, on whatever clock."""


class Waiter:
    """One blocked call, as the watch knows it."""

    def __init__(self, watch: LineWatch, hold: StoredHold) -> None:
        self._watch, self.key, self.number = watch, hold.key, hold.number or 0
        self.hold: StoredHold | None = hold
        """As the watch has seen it last; None: it is gone."""
        self.news = Signal()
        """Notified once, when the hold waits no longer."""

    def wait(self, seconds: float) -> StoredHold | None:
        """The hold, when it waits no longer, or after so many seconds."""
        self.news.wait(0, seconds)
        return self.hold

    def wake(self) -> None:
        """End its wait; from any thread."""
        self.news.notify()

    def leave(self) -> None:
        """The call is blocked no longer."""
        self._watch.remove(self)


class WatchedLine:
    """The line of one pool, as far as calls of this process are blocked in it."""

    def __init__(self, pool: Key) -> None:
        self.pool = pool
        self.waiters: set[Waiter] = set()
        self.version: int | None = None
        """Of the pool, when the waiters were last examined; None: they are to be examined."""
        self.next_deadline: Slot | None = None
        self.fed: tuple[int, int, int] | None = None
        """The pool's version, units and waiters when a `FeedLine` was last sent."""


class LineWatch:
    """Wakes blocked calls."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._lock = threading.Lock()
        self._lines: dict[Key, WatchedLine] = {}
        self._running = False
        self._added = Signal()
        self._rest = 0.0

    def add(self, hold: StoredHold) -> Waiter:
        """Watch a hold until its call leaves."""
        waiter = Waiter(self, hold)
        pool = (hold.tenant, hold.legs[0].pool)
        with self._lock:
            line = self._lines.setdefault(pool, WatchedLine(pool))
            line.waiters.add(waiter)
            line.version = None
            start, self._running = not self._running, True
        if start:
            self._start()
        else:
            self._added.notify()  # the worker may rest,
            self._executor.committed.notify()  # or wait for the next deadline
        return waiter

    def _start(self) -> None:
        try:
            self._executor.start_worker(self._run, "holdkit-line-watch", Signal())
        except BaseException:
            self._running = False
            raise

    def remove(self, waiter: Waiter) -> None:
        """Stop watching."""
        with self._lock:
            for line in [*self._lines.values()]:
                line.waiters.discard(waiter)
                if not line.waiters:
                    del self._lines[line.pool]

    def _run(self) -> None:
        executor = self._executor
        executor.listen()
        try:
            while not executor.closed and self._going_on():
                added, count, pause = self._added.count, executor.committed.count, LOOK
                self._rest = REST
                try:
                    pause = self._look()
                except HoldkitError as failed:
                    if not executor.closed:
                        log.warning("cannot see who is next in line, will look again: %s", failed)
                if self._rest > 0:
                    self._added.wait(added, min(self._rest, pause))
                executor.committed.wait(count, pause)
        finally:
            self._running = False
            for line in [*self._lines.values()] if executor.closed else ():
                for waiter in [*line.waiters]:
                    waiter.news.notify()  # its call finds that the kernel is closed

    def _going_on(self) -> bool:
        with self._lock:
            self._running = bool(self._lines)
            return self._running

    def _look(self) -> float:
        """Look at every line; returns the seconds until something may happen by itself."""
        with self._lock:
            lines = [*self._lines.values()]
        pools = self._executor.find_pools([line.pool for line in lines])
        pauses = [self._look_at(line, pool) for line, pool in zip(lines, pools, strict=True)]
        return min([LOOK, *pauses])

    def _look_at(self, line: WatchedLine, pool: Pool | None) -> float:
        if pool is None:
            self._rest = 0.0
            self._examine(line, strict=False)
            return LOOK
        state = (pool.version, pool.available, pool.waiting)
        if pool.waiting and pool.available > 0 and not pool.archived and state != line.fed:
            tenant, id = line.pool
            self._executor.group_commit.submit(Group((FeedLine(tenant=tenant, id=id),)))
            line.fed = state
        if line.version != pool.version:
            line.version = pool.version  # first: a call that is added meanwhile is examined by the next look
            self._examine(line, strict=pool.line == "strict")
            line.next_deadline = self._executor.read(NextDeadline(line.pool))
        self._rest = min(self._rest, STEP * self._ahead(line, pool))
        if line.next_deadline is None:
            return LOOK
        left = (line.next_deadline - self._executor.now()) / SECOND
        return LOOK if left <= 0 else left + LATE

    def _ahead(self, line: WatchedLine, pool: Pool) -> int:
        """How many wait ahead of our first one, at least: those behind it have higher numbers, and no more than were given since."""
        with self._lock:
            first = min([waiter.number for waiter in line.waiters], default=pool.last_number)
        ahead = pool.waiting - 1 - (pool.last_number - first)
        return ahead if pool.line == "strict" and ahead > pool.total else 0

    def _examine(self, line: WatchedLine, *, strict: bool) -> None:
        """Read the holds that wait, in order, and wake those that wait no longer."""
        with self._lock:
            waiters = sorted(line.waiters, key=lambda waiter: waiter.number)
        for waiter in waiters:
            if waiter.news.count:
                continue
            hold = self._executor.find_hold(waiter.key)
            waiter.hold = hold
            if hold is None or hold.state is not State.WAITING:
                waiter.news.notify()
            elif strict:
                return
