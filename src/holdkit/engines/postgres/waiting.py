"""Waits that something else can end: on a caller's connection, and for a primary that no longer answers.

Theory of operation, a caller's connection. It must stay in step with its server whatever happens to us, because its owner continues to use
it. So when the time is over, or an interrupt or a cancellation strikes, we ask the server to cancel the statement, and wait at most `GRACE`
seconds for its answer to that. The interrupt is thrown into the exchange, which reads every outstanding answer and then raises the
interrupt. A cancelled task may be cancelled again at every turn of the loop (some frameworks do that), so the exchange has a task of its
own, and only the first cancellation counts.

Theory of operation, a primary that is stopped. A host that was stopped or cut off keeps its connections open and says nothing. The time
that an answer may take is unknown: a COMMIT waits for its standby, a statement for a lock. So silence alone ends no wait. But once a wait
has lasted `QUIET` seconds, `PrimaryWatch` asks every host of the address, side by side, repeatedly while any wait lasts. If one of them is
a newer primary (`hosts`), the watch shuts down the socket of every connection that waits for an older one; the waiting call finds the
connection lost. A call that had not sent COMMIT did nothing, and is retried with the new primary. After COMMIT the outcome is unknown, and
is resolved there. The watch also ends waits whose own time is over, for calls that cannot see that themselves (psycopg's blocking calls).
It is one thread, which runs while there are waits and a little longer. It shuts a socket down under the lock under which waits begin and
end, and a connection is closed only after its wait has ended: so it never shuts down another connection that was given the same file
descriptor.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import psycopg
from psycopg import pq

from .driver import WRITE, Steps, timed_out
from .hosts import AllFailed, Host, HostConnection, Primary, Race, open_one

T = TypeVar("T")

GRACE: Final = 5.0
"""Seconds that the server has to confirm a cancellation."""
TICK: Final = 0.25
"""Seconds between two checks of the watch."""
QUIET: Final = 0.75
"""Seconds without an answer after which the other hosts are asked."""
PROBE: Final = 1.0
"""Seconds for asking the hosts, and the pause before they are asked again if one has answered."""
BRIEF: Final = 2.0
"""Seconds for an answer that is not needed: a connection that does not answer is dropped, and nothing is lost."""
LINGER: Final = 20
"""Checks without a wait after which the watch's thread ends."""


# A caller's connection


class Interrupted(BaseException):
    """Thrown into the exchange for an interrupt of any kind: a signal handler may raise even an `OSError`."""

    def __init__(self, by: BaseException) -> None:
        super().__init__(by)
        self.by = by


class _Deadline:
    """The time that is left to wait; once it is over, a little longer for the answer to the cancellation."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._moment = time.monotonic() + seconds
        self._cancelled = False

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return self._moment - time.monotonic()

    def cancel(self) -> bool:
        """Return whether to cancel now: True only the first time. From then on the deadline is `GRACE` seconds away."""
        first, self._cancelled = not self._cancelled, True
        if first:
            self._moment = time.monotonic() + GRACE
        return first

    def passed(self) -> TimeoutError:
        """Return the error to throw when the answer to the cancellation is late too."""
        return timed_out(self._seconds)


def wait(steps: Steps[T], fileno: int, seconds: float, cancel: Callable[[], None]) -> T:
    """Run an exchange on this thread. On a timeout or an interrupt, `cancel` the statement and bring the connection back in step."""
    deadline = _Deadline(seconds)
    poll = select.poll()
    try:
        wanted = next(steps)
        poll.register(fileno, wanted)
        while True:
            error: BaseException | None = None
            try:
                ready = deadline.left > 0 and poll.poll(deadline.left * 1000)
            except BaseException as interrupt:  # noqa: BLE001 - thrown into the exchange, and raised at the end
                ready, error = False, Interrupted(interrupt)
            if not ready and deadline.cancel():
                with suppress(Exception):  # a server that cannot be asked does not answer either
                    cancel()
            elif not ready and error is None:
                error = deadline.passed()
            if not ready and error is None:
                continue
            now = next(steps) if error is None else steps.throw(error)
            if now != wanted:
                wanted = now
                poll.modify(fileno, wanted)
    except StopIteration as stop:
        result: T = stop.value
        return result
    except Interrupted as interrupted:
        raise interrupted.by from None


async def wait_async(steps: Steps[T], fileno: int, seconds: float, cancel: Callable[[], Awaitable[None]]) -> T:
    """Run an exchange in a task. On a timeout or a cancellation, `cancel` the statement and bring the connection back in step."""
    return await cancelled_once(_drive(steps, fileno, seconds, cancel))


async def cancelled_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a task of its own, to its end, and pass only the first cancellation on to it."""
    work = asyncio.ensure_future(coroutine)
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            if cancelled is None:
                cancelled = error
                work.cancel()
    if cancelled is not None:
        if not work.cancelled():
            work.exception()  # retrieved, so that asyncio does not log it
        raise cancelled
    return work.result()


async def _drive(steps: Steps[T], fileno: int, seconds: float, cancel: Callable[[], Awaitable[None]]) -> T:
    deadline = _Deadline(seconds)
    try:
        wanted = next(steps)
        while True:
            error: BaseException | None = None
            try:
                ready = await _ready(fileno, wanted, deadline.left)
            except asyncio.CancelledError as interrupt:
                ready, error = False, interrupt
            if not ready and deadline.cancel():
                try:
                    await cancel()
                except asyncio.CancelledError as interrupt:
                    error = interrupt
                except Exception:  # noqa: BLE001 - a server that cannot be asked does not answer either
                    pass
            elif not ready and error is None:
                error = deadline.passed()
            if ready:
                wanted = next(steps)
            elif error is not None:
                wanted = steps.throw(error)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _ready(fileno: int, wanted: int, seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(fileno, wake)
    if wanted & WRITE:
        loop.add_writer(fileno, wake)
    try:
        done, _ = await asyncio.wait([ready], timeout=max(0.0, seconds))
        return bool(done)
    finally:
        loop.remove_reader(fileno)
        if wanted & WRITE:
            loop.remove_writer(fileno)


# A primary that no longer answers


class Watched(Protocol):
    """A connection of our own that is waited on."""

    pgconn: pq.abc.PGconn
    primary: Primary | None


class PrimaryWatch:
    """Ends the waits of one engine that lead to a primary which was replaced, or whose time is over."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = hosts
        self.several = len(hosts) > 1
        """Whether the address names another host to connect to."""
        self._lock = threading.Lock()
        self._waits: dict[Watched, tuple[float, float | None]] = {}
        self._thread: threading.Thread | None = None
        self._next_probe = 0.0

    def begin(self, connection: Watched, until: float | None = None) -> None:
        """Watch a wait on this connection, which may last until that moment of `time.monotonic`."""
        with self._lock:
            self._waits[connection] = (time.monotonic(), until)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdkit-watch", daemon=True)
                self._thread.start()

    def end(self, connection: Watched) -> None:
        """Stop watching: the wait is over, or the connection is about to be closed."""
        with self._lock:
            self._waits.pop(connection, None)

    def _run(self) -> None:
        idle = 0
        while True:
            time.sleep(TICK)
            with self._lock:
                idle = 0 if self._waits else idle + 1
                if idle > LINGER:
                    self._thread = None
                    return
                now = time.monotonic()
                quiet = any(now - since > QUIET for since, _ in self._waits.values())
            if quiet and self.several and self._next_probe < now:
                self._probe()
            self._end_waits()

    def _probe(self) -> None:
        """Connect to every host: opening a connection to a newer primary makes this process remember it. If any host takes writes, wait
        `PROBE` seconds before the next probe."""
        race = Race([partial(open_one, host) for host in self._hosts], HostConnection.close)
        with suppress(AllFailed):
            race.run(PROBE, best=HostConnection.timeline).close()
            self._next_probe = time.monotonic() + PROBE

    def _end_waits(self) -> None:
        with self._lock:
            now = time.monotonic()
            for connection, (_, until) in tuple(self._waits.items()):
                outdated = connection.primary is not None and connection.primary.outdated
                if outdated or (until is not None and until <= now):
                    del self._waits[connection]
                    _shut_down(connection.pgconn)


def _shut_down(pgconn: pq.abc.PGconn) -> None:
    """Make the call that waits on this connection find it lost."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(pgconn.socket)) as duplicate:
        duplicate.shutdown(socket.SHUT_RDWR)
