"""Background work, for threads and for tasks: signals to wait for, and workers that end when their kernel closes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any, TypeAlias

from ..engines.deadlines import until
from .context import without_timeout

Work: TypeAlias = Callable[[], None]
AsyncWork: TypeAlias = Callable[[], Awaitable[None]]

GRACE = 10.0
"""Seconds that `close` waits for a worker, such as a listener in the middle of its callback."""


class Signal:
    """A signal for threads: a count that only grows, and a way to wait until it has grown."""

    def __init__(self) -> None:
        self.count = 0
        self.closed = False
        self._waiting = 0
        self._condition = threading.Condition()

    def notify(self) -> None:
        """Count one more, and wake the waiting threads. (They register before they read the count, so none is missed.)"""
        self.count += 1
        if self._waiting:
            with self._condition:
                self._condition.notify_all()

    def close(self) -> None:
        """Wake everything that waits, now and in the future."""
        self.closed = True
        with self._condition:
            self._condition.notify_all()

    def wait(self, seen: int, seconds: float) -> int:
        """Wait until the count is no longer `seen`, the signal is closed, or the time is over; return the count."""
        with self._condition:
            self._waiting += 1
            try:
                self._condition.wait_for(lambda: self.closed or self.count != seen, seconds)
            finally:
                self._waiting -= 1
        return self.count


class AsyncSignal:
    """A signal for tasks. Notified on the event loop's own thread."""

    def __init__(self) -> None:
        self.count = 0
        self.closed = False
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Count one more, and wake the waiting tasks."""
        self.count += 1
        self._event.set()

    def close(self) -> None:
        """Wake everything that waits, now and in the future."""
        self.closed = True
        self._event.set()

    async def wait(self, seen: int, seconds: float) -> int:
        """Wait until the count is no longer `seen`, the signal is closed, or the time is over; return the count."""
        if self.count == seen and not self.closed:
            self._event.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._event.wait()
            except TimeoutError:
                pass
        return self.count


class Worker:
    """Background work on a daemon thread, until it ends or `stop` is closed; listed in the workers of its kernel meanwhile."""

    def __init__(self, workers: set[Worker], work: Work, name: str, stop: Signal) -> None:
        self._workers, self._work, self.stop = workers, work, stop
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._begun = threading.Event()
        """Set once the thread has begun. The worker is listed before that, so another thread that ends it waits for this event."""
        workers.add(self)
        try:
            self._thread.start()
        except RuntimeError:  # no more threads
            workers.discard(self)
            raise
        finally:
            self._begun.set()

    def _run(self) -> None:
        try:
            with until(inf):  # not the deadline of the call which started it
                self._work()
        finally:
            self._workers.discard(self)

    def end(self, seconds: float | None = None) -> None:
        """Tell it to stop, and wait until it has stopped. (Its own thread does not wait for itself.)"""
        self.stop.close()
        self._begun.wait(seconds)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)


class AsyncWorker:
    """Background work as a task."""

    def __init__(self, workers: set[AsyncWorker], work: AsyncWork, name: str, stop: AsyncSignal) -> None:
        self._workers, self._work, self.stop = workers, work, stop
        workers.add(self)
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    async def _run(self) -> None:
        try:
            with until(inf), without_timeout():  # a thread inherits no context, a task all of it
                await self._work()
        finally:
            self._workers.discard(self)

    async def end(self, seconds: float | None = None) -> None:
        """Tell it to stop, and wait until it has stopped; if that takes longer, cancel it. (Its own task does not wait.)"""
        self.stop.close()
        if self._task is asyncio.current_task():
            return
        _, late = await asyncio.wait([self._task], timeout=seconds)
        if late:
            self._task.cancel()
            await asyncio.wait([self._task], timeout=1)


async def call_listener(callback: Callable[[Any], Any], entry: Any) -> None:
    """Call a listener that may be a plain function or a coroutine function."""
    result = callback(entry)
    if isinstance(result, Awaitable):
        await result
