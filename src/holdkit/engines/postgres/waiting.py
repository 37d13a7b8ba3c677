"""Waiting for a socket, in both colours: the only code here that differs between threads and tasks.

What goes on in between is a generator that says what it waits for. Every wait has a deadline; where `give_up` is given, the
other side is asked to stop first, and its answer to that is waited for, so that the connection stays in step.
"""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import Callable, Generator
from typing import Final, TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[int, None, T]
"""Yields what it waits for on the socket, goes on when that is there, returns its result."""
READ: Final = select.POLLIN
WRITE: Final = select.POLLOUT
GRACE: Final = 5.0
"""Seconds the other side has to confirm that it stopped."""


class Patience:
    """How long to wait; once that is over, `give_up` is called, once, and there is a little more."""

    def __init__(self, seconds: float, give_up: Callable[[], None] | None) -> None:
        self._seconds, self._give_up = seconds, give_up
        self._deadline = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds."""
        return self._deadline - time.monotonic()

    def over(self) -> TimeoutError | None:
        """Called when nothing is left; the error to throw, if there is nothing more to try."""
        if self._give_up is None:
            return TimeoutError(f"no answer within {self._seconds:g} seconds")
        give_up, self._give_up = self._give_up, None
        self._deadline = time.monotonic() + GRACE
        give_up()
        return None


def wait(steps: Steps[T], socket: int, seconds: float, give_up: Callable[[], None] | None = None) -> T:
    """Run to the end on this thread. Interrupted, and with a way to give up, it first brings the connection back in step."""
    patience = Patience(seconds, give_up)
    struck: BaseException | None = None
    poll = select.poll()
    try:
        wanted = next(steps)
        poll.register(socket, wanted)
        while True:
            try:
                ready = patience.left > 0 and poll.poll(patience.left * 1000)
            except BaseException as interrupt:
                if give_up is None or struck is not None:
                    raise
                struck, ready = interrupt, False
            if not ready:
                late = patience.over()
                if late is not None:
                    steps.throw(late)
                continue
            now = next(steps)
            if now != wanted:
                wanted = now
                poll.modify(socket, wanted)
    except StopIteration as stop:
        if struck is not None:
            raise struck from None
        result: T = stop.value
        return result
    except Exception:
        if struck is not None:
            raise struck from None
        raise


async def wait_async(steps: Steps[T], socket: int, seconds: float, give_up: Callable[[], None]) -> T:
    """The same in a task; a cancelled one also brings the connection back in step before it goes."""
    patience = Patience(seconds, give_up)
    cancelled = False
    try:
        wanted = next(steps)
        while True:
            try:
                ready = await _ready(socket, wanted, patience.left)
            except asyncio.CancelledError:
                if cancelled:
                    raise
                cancelled, ready = True, False
            if ready:
                wanted = next(steps)
            elif (late := patience.over()) is not None:
                steps.throw(late)
    except StopIteration as stop:
        if cancelled:
            raise asyncio.CancelledError from None
        result: T = stop.value
        return result
    except Exception:
        if cancelled:
            raise asyncio.CancelledError from None
        raise


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
