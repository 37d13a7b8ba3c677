"""Waiting for a socket, in sync and async: the only code here that differs between threads and tasks.

What goes on in between is a generator that says what it waits for. Every wait has a deadline; where `give_up` is given, the
other side is asked to stop first, and its answer to that is waited for, so that the connection stays in step. The same if
an interrupt or a cancellation strikes: it is thrown into the generator, which tidies up behind itself and lets it through.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import suppress
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[int, None, T]
"""Yields what it waits for on the socket, goes on when that is there, returns its result."""
READ: Final = select.POLLIN
WRITE: Final = select.POLLOUT
GRACE: Final = 5.0
"""Seconds the other side has to confirm that it stopped."""


class Interrupted(BaseException):
    """What is thrown into the generator for an interrupt of any kind: a signal's handler may raise even an `OSError`."""

    def __init__(self, by: BaseException) -> None:
        super().__init__(by)
        self.by = by


class Patience:
    """How long to wait. Once that is over there is a little more, if the other side can be asked to stop."""

    def __init__(self, seconds: float, *, can_give_up: bool) -> None:
        self._seconds, self._can_give_up = seconds, can_give_up
        self._deadline = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds."""
        return self._deadline - time.monotonic()

    def give_up(self) -> bool:
        """Whether to ask the other side to stop now: the first time only, and then its answer is waited for."""
        first, self._can_give_up = self._can_give_up, False
        if first:
            self._deadline = time.monotonic() + GRACE
        return first

    def late(self) -> TimeoutError:
        """The error to throw when there is nothing more to try."""
        return TimeoutError(f"no answer within {self._seconds:g} seconds")


def wait(steps: Steps[T], socket: int, seconds: float, give_up: Callable[[], None] | None = None) -> T:
    """Run to the end on this thread. Interrupted, and with a way to give up, it first brings the connection back in step."""
    patience = Patience(seconds, can_give_up=give_up is not None)
    poll = select.poll()
    try:
        wanted = next(steps)
        poll.register(socket, wanted)
        while True:
            error: BaseException | None = None
            try:
                ready = patience.left > 0 and poll.poll(patience.left * 1000)
            except BaseException as interrupt:
                if give_up is None:
                    raise
                ready, error = False, Interrupted(interrupt)
            if not ready and give_up is not None and patience.give_up():
                with suppress(Exception):  # it cannot even be asked: then it does not answer either
                    give_up()
            elif not ready and error is None:
                error = patience.late()
            if not ready and error is None:
                continue
            now = next(steps) if error is None else steps.throw(error)
            if now != wanted:
                wanted = now
                poll.modify(socket, wanted)
    except StopIteration as stop:
        result: T = stop.value
        return result
    except Interrupted as interrupted:
        raise interrupted.by from None


async def wait_async(steps: Steps[T], socket: int, seconds: float, give_up: Callable[[], Awaitable[None]]) -> T:
    """The same in a task. A cancelled one brings the connection back in step before it goes, however often it is
    cancelled meanwhile (some frameworks do so at every turn of the loop): the work has a task of its own."""
    work = asyncio.ensure_future(_drive(steps, socket, seconds, give_up))
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
            work.exception()  # looked at, so that nobody complains
        raise cancelled
    return work.result()


async def _drive(steps: Steps[T], socket: int, seconds: float, give_up: Callable[[], Awaitable[None]]) -> T:
    patience = Patience(seconds, can_give_up=True)
    try:
        wanted = next(steps)
        while True:
            error: BaseException | None = None
            try:
                ready = await _ready(socket, wanted, patience.left)
            except asyncio.CancelledError as interrupt:
                ready, error = False, interrupt
            if not ready and patience.give_up():
                try:
                    await give_up()
                except asyncio.CancelledError as interrupt:
                    error = interrupt
                except Exception:  # noqa: BLE001 - it cannot even be asked: then it does not answer either
                    pass
            elif not ready and error is None:
                error = patience.late()
            if ready:
                wanted = next(steps)
            elif error is not None:
                wanted = steps.throw(error)
    except StopIteration as stop:
        result: T = stop.value
        return result


async def _ready(socket: int, wanted: int, seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(socket, wake)
    if wanted & WRITE:
        loop.add_writer(socket, wake)
    try:
        done, _ = await asyncio.wait([ready], timeout=max(0.0, seconds))
        return bool(done)
    finally:
        loop.remove_reader(socket)
        if wanted & WRITE:
            loop.remove_writer(socket)


async def run_on_loop(steps: Steps[T], socket: int, seconds: float, begun: Callable[[], None] | None = None) -> T:
    """Run to the end on the event loop, on a connection of our own: one that is cancelled halfway is dropped by whoever lent
    it. `begun` is called once the first step is taken: all is on its way."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    try:
        wanted = next(steps)
        if begun is not None:
            begun()
        while True:
            ready: asyncio.Future[bool] = loop.create_future()
            timer = loop.call_at(deadline, _settle, ready, False)
            loop.add_reader(socket, _settle, ready, True)
            if wanted & WRITE:
                loop.add_writer(socket, _settle, ready, True)
            try:
                in_time = await ready
            finally:
                timer.cancel()
                loop.remove_reader(socket)
                if wanted & WRITE:
                    loop.remove_writer(socket)
            wanted = next(steps) if in_time else steps.throw(TimeoutError(f"no answer within {seconds:g} seconds"))
    except StopIteration as stop:
        result: T = stop.value
        return result


def _settle(ready: asyncio.Future[bool], value: bool) -> None:
    if not ready.done():
        ready.set_result(value)
