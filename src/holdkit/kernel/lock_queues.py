"""Waiting rooms: who needs what somebody else's transaction has locked waits here, apart from everybody who does not.

A room is a second queue with the same group commit, one per thing that is waited for; its batches are patient. While its
leader is blocked, everyone else for the same thing queues up behind it, and rides along once it goes on, or in the next batch. Rooms come with
the first guest and go with the last. All guests together are bounded, and may take half of the queue's bound at most: a
locked pool must not turn away the callers of others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from ..core.commands import Consume, Group, PlaceHold
from ..core.model import SECOND
from ..core.outcomes import Outcome
from ..engines.deadlines import within
from ..errors import EngineError, Overloaded
from .bounded_queue import CLOSED, Queue
from .leader_queue import LeaderQueue
from .queued_calls import SkippedLocked

LOCK_QUEUES: Final = 16
"""Things that may be waited for at once; more wait for a room."""
ROUNDS: Final = 3
"""How often one caller waits before it is turned away."""


def still_locked(what: str) -> Overloaded:
    """Waited for, again and again."""
    return Overloaded(f"{what} is locked by another transaction, still: try again a little later", retry_after=1)


def no_queue_left(what: str) -> Overloaded:
    """Not even waited for."""
    return Overloaded(f"{what} is locked by another transaction, and so is much else: try again a little later")


class Bound:
    """How many commands may wait in rooms, which the main queue has less room for then."""

    def __init__(self, main: Queue) -> None:
        self._main, self._all = main, main.bound
        self._half = max(1, main.bound // 2)

    def check(self, waiting: int, size: int) -> None:
        """Turn away who does not fit; one that is larger than the bound is let in when nobody waits."""
        if waiting and waiting + size > self._half:
            raise Overloaded(f"{waiting} commands are waiting for locks already: try again a little later")

    def tell(self, waiting: int) -> None:
        """So many are in rooms now."""
        self._main.bound = max(0, self._all - waiting)


def known(rooms: Mapping[str, object], group: Group) -> str | None:
    """Which of these rooms a group would be sent to, as far as it names its pools: the detour can be spared."""
    for command in group.commands:
        if isinstance(command, PlaceHold | Consume):
            for leg in command.legs:
                if f"{command.tenant}/{leg.pool}" in rooms:
                    return f"{command.tenant}/{leg.pool}"
    return None


class _Guest:
    """One thread in a room, or waiting for one."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.woken = threading.Lock()
        """Held while it waits for a room."""
        self.gone = False


class LockQueue(LeaderQueue):
    """One room for threads."""

    def __init__(self, main: LeaderQueue) -> None:
        super().__init__(main.engine, main.committed, wait_for_locks=True)
        self.guests: set[_Guest] = set()

    def _run(self, batch: list[Any]) -> bool:
        """Those who come while the leader is blocked ride with it, if the engine can take them in."""
        return self._runner.run(batch, more=partial(self._let_in, batch))


class LockQueues:
    """Rooms for threads: the caller's own thread waits. (Plain locks alone: an interrupt can leave a condition locked.)"""

    def __init__(self, main: LeaderQueue) -> None:
        self._main, self._bound = main, Bound(main)
        self._lock = threading.Lock()
        self._standing: set[_Guest] = set()
        self._open: dict[str, LockQueue] = {}
        self._closed = False
        self._closing = threading.Lock()
        """Held by `close` until the last guest has left."""

    def known(self, group: Group) -> str | None:
        """Where it would be sent, if there is such a room already."""
        return known(self._open, group) if self._open else None

    def wait(self, what: str, group: Group, minted: bool) -> list[Outcome]:
        """Wait for what is locked, and return the outcomes."""
        for _ in range(ROUNDS):
            guest = _Guest(len(group.commands))
            try:
                return self._visit(guest, what, group, minted)
            except SkippedLocked as left:
                what = left.what
            finally:  # gone already, unless an interrupt struck its leaving at the very beginning
                if not guest.gone:
                    self._leave(guest)
        raise still_locked(what)

    def _visit(self, guest: _Guest, what: str, group: Group, minted: bool) -> list[Outcome]:
        try:
            return self._enter(guest, what).submit(group, minted=minted)
        finally:
            self._leave(guest)

    def _enter(self, guest: _Guest, what: str) -> LockQueue:
        with self._lock:
            self._bound.check(self._waiting(), guest.size)
            room = self._seat(guest, what)
        until = time.monotonic() + within(self._main.engine.limits.lock_timeout / SECOND)
        while room is None:
            if not guest.woken.acquire(timeout=max(0, until - time.monotonic())):
                raise no_queue_left(what)
            with self._lock:
                room = self._seat(guest, what)
        return room

    def _seat(self, guest: _Guest, what: str) -> LockQueue | None:
        if self._closed:
            raise EngineError(CLOSED)
        room = self._open.get(what)
        if room is None and len(self._open) < LOCK_QUEUES:
            room = self._open[what] = LockQueue(self._main)
        if room is None:
            self._standing.add(guest)
            guest.woken.acquire(blocking=False)
        else:
            room.guests.add(guest)
            self._standing.discard(guest)
        self._bound.tell(self._waiting())
        return room

    def _leave(self, guest: _Guest) -> None:
        """An interrupt may strike in here too: all of it can be done twice, so it is done until it is done."""
        interrupted: BaseException | None = None
        for _ in range(100):
            try:
                self._check_out(guest)
                break
            except BaseException as interrupt:  # noqa: BLE001 - raised below, after the work is done
                interrupted = interrupt
        if interrupted is not None:
            raise interrupted

    def _check_out(self, guest: _Guest) -> None:
        with self._lock:
            self._standing.discard(guest)
            for what, room in tuple(self._open.items()):
                room.guests.discard(guest)
                if not room.guests:
                    self._open.pop(what, None)
            self._bound.tell(self._waiting())
            self._wake()
            guest.gone = True

    def _wake(self) -> None:
        """Something may have become free: those who wait for a room look again, and so does whoever closes."""
        for guest in self._standing:
            if guest.woken.locked():
                guest.woken.release()
        if self._closed and not self._open and not self._standing and self._closing.locked():
            self._closing.release()

    def _waiting(self) -> int:
        guests = [self._standing, *(room.guests for room in self._open.values())]
        return sum([guest.size for some in guests for guest in some])

    def close(self, seconds: float) -> None:
        """Refuse what comes; wait for those inside, so many seconds at most."""
        self._closing.acquire()
        with self._lock:
            self._closed = True
            self._wake()
        self._closing.acquire(timeout=seconds)
