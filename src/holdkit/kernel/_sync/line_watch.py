# Generated from ../_async/line_watch.py by tools/gen_sync.py: do not edit.
"""Watching lines: wake the blocked calls of a process when units are offered to them, and feed lines that no other worker feeds.

Theory of operation. A batch names the holds that wait no longer (`Applied.served`), and only their calls are woken. Calls that are blocked
in this process get the hold at once, without a read. For the others the kernel notifies a channel of the engine, by which processes wake
one another. There are 256 channels; two digits of a hold's id name the one of its caller (`channel_of`), and a kernel mints all ids
of holds that may wait with its own. So with many processes in line, one commit wakes about one of them.

A worker serves all blocked calls of a kernel; it runs while there are any. It looks at the lines when its channel is notified, at the
next deadline of each pool with a blocked call, and every `LOOK` seconds, for changes without a notification and for lost ones. One look is
one read of the pools; only if a pool has changed, it reads the holds that wait there, in the order of the line, up to the first that
still waits: no waiter behind that one can have an offer, unless the line lets some pass.

Units may be free while a hold waits: a deadline has passed, or a caller's own transaction has released them. Then the worker
sends a `FeedLine`, and again only after the pool has changed, because the first in line may ask for more than is free. At a
deadline, the processes whose calls are far from the front wait a moment longer (`STEP` for each that is ahead): the first one feeds,
and the others find the line fed.

Nothing is missed: a call is added before it reads its hold for the first time. If the engine fails, the worker looks again later; a
blocked call also learns from its own renewals what became of its hold.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.commands import FeedLine, Group
from ...core.model import SECOND, Key, Pool, Slot, State, StoredHold
from ...core.reading import NextDeadline
from ...errors import HoldkitError
from ..prepare import Randomness, channel_of
from ..workers import Signal

if TYPE_CHECKING:
    from .executor import Executor

log = logging.getLogger("holdkit")

LOOK = 1.0
"""Seconds between two looks at the latest."""
STEP = 0.005
"""Seconds to wait after a deadline for each that is ahead of the first blocked call of this process."""
REST = 0.5
"""Seconds to wait so at most."""
LATE = 0.001
"""Seconds after a deadline at which a look finds it passed, on whatever clock."""


class Waiter:
    """One blocked call, as the watch knows it."""

    def __init__(self, watch: LineWatch, hold: StoredHold) -> None:
        self._watch, self.key, self.number = watch, hold.key, hold.number or 0
        self.pool: Key = (hold.tenant, hold.legs[0].pool)
        self.hold: StoredHold | None = hold
        """As it was seen last; None: it is gone."""
        self.news = Signal()
        """Notified when the hold waits no longer."""
        self._looked = False

    def wait(self, seconds: float) -> StoredHold | None:
        if not self._looked:
            self._looked = True
            self._watch.look_at(self)  # what happened before it was added
        self.news.wait(0, seconds)
        return self.hold

    def woken(self) -> bool:
        """Return whether its wait has ended."""
        return self.news.count > 0

    def wake(self) -> None:
        """End its wait; from any thread."""
        self.news.notify()

    def leave(self) -> None:
        """The call is blocked no longer."""
        self._watch.remove(self)


class WatchedLine:
    """The line of one pool, with the calls of this process that are blocked in it."""

    def __init__(self, pool: Key) -> None:
        self.pool = pool
        self.waiters: dict[Waiter, None] = {}
        """In the order in which they came: a set would wake them in another order in each process."""
        self.version: int | None = None
        """Of the pool, when the waiters were last examined."""
        self.next_deadline: Slot | None = None
        self.fed: tuple[int, int, int] | None = None
        """The pool's version, units and waiters when a `FeedLine` was last sent."""


class LineWatch:
    """Wakes blocked calls."""

    def __init__(self, executor: Executor, randomness: Randomness) -> None:
        self._executor = executor
        self._channels = executor.engine.capabilities.channels
        self.channel = None if self._channels is None else randomness(1).hex()
        """On which other processes wake this one."""
        self._lock = threading.Lock()
        self._lines: dict[Key, WatchedLine] = {}
        """Those without waiters are dropped by the next look: a process that waits again and again needs no look for each wait."""
        self._waiters: dict[Key, dict[Waiter, None]] = {}
        """By hold."""
        self._running = False
        self._news = Signal()

    def add(self, hold: StoredHold) -> Waiter:
        """Watch a hold until its call leaves."""
        waiter = Waiter(self, hold)
        with self._lock:
            new = waiter.pool not in self._lines
            self._lines.setdefault(waiter.pool, WatchedLine(waiter.pool)).waiters[waiter] = None
            self._waiters.setdefault(waiter.key, {})[waiter] = None
            start, self._running = not self._running, True
        if start:
            self._start()
        elif new:
            self._news.notify()
        if self._channels is not None:
            self._executor.group_commit.listen_on(self._channels, channel_of(hold.id), self._news.notify)
        return waiter

    def _start(self) -> None:
        try:
            self._executor.start_worker(self._run, "holdkit-line-watch", self._news)
        except BaseException:
            self._running = False
            raise

    def remove(self, waiter: Waiter) -> None:
        """Stop watching."""
        with self._lock:
            if (line := self._lines.get(waiter.pool)) is not None:
                line.waiters.pop(waiter, None)
            if (waiters := self._waiters.get(waiter.key)) is not None:
                waiters.pop(waiter, None)
                if not waiters:
                    del self._waiters[waiter.key]

    def served(self, holds: Sequence[StoredHold]) -> None:
        """Wake the calls that are blocked for these holds, here or elsewhere, after a commit of this process. Never raises."""
        elsewhere: set[str] = set()
        with self._lock:
            found = [(hold, [*self._waiters.get(hold.key, ())]) for hold in holds]
        for hold, waiters in found:
            for waiter in waiters:
                waiter.hold = hold
                waiter.news.notify()
            if not waiters:
                elsewhere.add(channel_of(hold.id))
        if elsewhere and self._channels is not None:
            self._channels.notify(elsewhere)
        soon = self._executor.now() + LOOK * SECOND
        if any((hold.tenant, hold.legs[0].pool) in self._lines and 0 < (hold.deadline or 0) < soon for hold in holds):
            self._news.notify()  # an offer that ends before the next look

    def look_at(self, waiter: Waiter) -> bool:
        """Read one hold, and wake its call if it waits no longer; whether it still waits. A look that fails is repeated later."""
        if waiter.woken():
            return False
        try:
            hold = self._executor.find_hold(waiter.key)
        except HoldkitError:
            return True
        if waiter.woken():  # meanwhile a commit has said more than was read
            return False
        waiter.hold = hold
        if hold is not None and hold.state is State.WAITING:
            return True
        waiter.news.notify()
        return False

    def _run(self) -> None:
        executor = self._executor
        try:
            while not executor.closed and self._going_on():
                count, pause = self._news.count, LOOK
                try:
                    pause = self._look()
                except HoldkitError as failed:
                    if not executor.closed:
                        log.warning(
                            "cannot see who is next in line, will look again: %s",
                            failed,
                            extra={"event": "line_unread"},
                        )
                self._news.wait(count, pause)
        finally:
            self._running = False
            for waiters in [*self._waiters.values()] if executor.closed else ():
                for waiter in [*waiters]:
                    waiter.news.notify()  # its call finds that the kernel is closed

    def _going_on(self) -> bool:
        with self._lock:
            for line in [*self._lines.values()]:
                if not line.waiters:
                    del self._lines[line.pool]
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
            self._examine(line, strict=False)
            return LOOK
        state = (pool.version, pool.available, pool.waiting)
        if pool.waiting and pool.available > 0 and not pool.archived and state != line.fed:
            tenant, id = line.pool
            self._executor.group_commit.submit(Group((FeedLine(tenant=tenant, id=id),)))
            line.fed = state
        if line.version != pool.version:
            line.version = pool.version
            self._examine(line, strict=pool.line == "strict")
            line.next_deadline = self._executor.read(NextDeadline(line.pool))
        if line.next_deadline is None:
            return LOOK
        left = (line.next_deadline - self._executor.now()) / SECOND
        return LOOK if left <= 0 else left + LATE + min(REST, STEP * self._ahead(line, pool))

    def _ahead(self, line: WatchedLine, pool: Pool) -> int:
        """Return at least how many holds wait ahead of our first one: those behind it have higher numbers, and no more than were given
        since."""
        with self._lock:
            first = min([waiter.number for waiter in line.waiters], default=pool.last_number)
        return max(0, pool.waiting - 1 - (pool.last_number - first))

    def _examine(self, line: WatchedLine, *, strict: bool) -> None:
        """Read the holds that wait, in order, and wake those that wait no longer."""
        with self._lock:
            waiters = sorted(line.waiters, key=lambda waiter: waiter.number)
        for waiter in waiters:
            if self.look_at(waiter) and strict:
                return
