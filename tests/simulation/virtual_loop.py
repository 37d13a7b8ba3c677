"""An event loop whose time moves only when the simulation moves it, and the processes whose tasks it runs.

Tasks run in one thread and in one order; nothing waits for real. What a kernel gives to a thread (a batch, a read) becomes a `Turn`: the
simulation decides when it runs, and whether its process lives to hear the answer. All else is the kernel's own code.
"""

from __future__ import annotations

import asyncio
import os
import time
from asyncio import events
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from types import SimpleNamespace
from typing import Any, Final

from msgspec import Struct

from holdkit import AsyncKernel
from holdkit.errors import OutcomeUnknown
from holdkit.kernel import batch_worker, record_lease
from holdkit.kernel._async import blocking
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel.batches import fail
from holdkit.kernel.prepare import Randomness
from holdkit.server import journal_watch
from holdkit.server.webhooks import attempts
from tests.simulation.store import Store

OWNER: ContextVar[Process | None] = ContextVar("token", default=None)
"""The process in which code runs."""


class VirtualLoop(asyncio.BaseEventLoop):
    """`asyncio`'s own loop, without a selector and without a clock."""

    _ready: Any
    _scheduled: Any
    _run_once: Any

    def __init__(self) -> None:
        super().__init__()
        self._selector = SimpleNamespace(select=lambda _timeout: ())
        self._now = 0.0
        self._owners: dict[asyncio.Task[Any], Process] = {}
        self._captured: list[asyncio.Handle] | None = None
        self.errors: list[str] = []
        """What broke where nobody waited for it."""

    def time(self) -> float:
        return self._now

    def _process_events(self, event_list: Any) -> None:
        """There is no selector."""

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._captured is None:
            return self.call_soon(callback, *args, context=context)
        self._captured.append(asyncio.Handle(callback, args, self, context))
        return self._captured[-1]

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        token = self._owner()
        task = super().create_task(coro, **options)
        self._owners[task] = token
        token.tasks.append(task)
        return task

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        return self._owner().read(func, args)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _owner(self) -> Process:
        """The process of whatever runs now. (A task may have an empty context.)"""
        current = asyncio.current_task(self)
        token = OWNER.get() if current is None else self._owners[current]
        assert token is not None, "this runs in no process"
        return token

    @contextmanager
    def inside(self, process: Process | None = None) -> Iterator[None]:
        """Code that belongs to the loop, or to a process on it."""
        before, token = events._get_running_loop(), OWNER.set(process)
        events._set_running_loop(self)
        try:
            yield
        finally:
            events._set_running_loop(before)
            OWNER.reset(token)

    def advance(self, seconds: float) -> None:
        """Let time pass; whatever waits for a moment of it runs then."""
        end, timers = self._now + seconds, self._scheduled
        with self.inside():
            while self._ready or (timers and timers[0]._when <= end):
                if not self._ready:
                    self._now = max(self._now, timers[0]._when)
                self._run_once()
        self._now = end

    def settle(self) -> None:
        """Run everything that can run without time or turns."""
        if self._ready:
            self.advance(0.0)

    @contextmanager
    def capturing(self) -> Iterator[list[asyncio.Handle]]:
        """Hold back what a thread sends to the loop."""
        captured = self._captured = list[asyncio.Handle]()
        with self.inside():
            try:
                yield captured
            finally:
                self._captured = None

    def release(self, handles: list[asyncio.Handle]) -> None:
        """Let the loop have it."""
        self._ready.extend(handles)
        self.settle()


class Turn(Struct, frozen=True, eq=False):
    """Something that a process waits for, and that happens when the simulation says so."""

    process: Process
    run: Callable[[], None]
    is_batch: bool = False


class Process:
    """A process of the operating system: a kernel on the store, and its tasks."""

    def __init__(
        self, loop: VirtualLoop, store: Store, turns: list[Turn], randomness: Randomness, is_slow: Callable[[], bool]
    ) -> None:
        self._loop, self._turns, self._is_slow = loop, turns, is_slow
        self.tasks: list[asyncio.Task[Any]] = []
        self.is_dead = False
        with loop.inside(self):
            self.executor = AsyncExecutor(store, randomness)  # type: ignore[arg-type]  # what kernels use of one
            self.hk = AsyncKernel(self.executor)
        self.executor.group_commit.main._batches = self  # type: ignore[assignment]

    def put(self, run: Callable[[], None]) -> None:
        """What the kernel gives to its writing thread: it happens in a turn."""
        self._add_turn(run, is_batch=True)

    def read(self, func: Callable[..., Any], args: tuple[Any, ...]) -> asyncio.Future[Any]:
        """What the kernel gives to a reading thread: mostly it happens at once, else in a turn."""
        future = self._loop.create_future()

        def run() -> None:
            try:
                if not future.done():
                    future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - whoever waits gets it
                future.set_exception(error)

        if self._is_slow():
            self._add_turn(run)
        else:
            run()
        return future

    async def turn(self) -> None:
        """Wait for a turn."""
        future = self._loop.create_future()
        self._add_turn(lambda: None if future.done() else future.set_result(None))
        await future

    def _add_turn(self, run: Callable[[], None], *, is_batch: bool = False) -> None:
        def enter() -> None:
            OWNER.set(self)
            run()

        if not self.is_dead:
            context = copy_context()
            self._turns.append(Turn(self, lambda: context.run(enter), is_batch))

    def start(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """One more task."""
        with self._loop.inside(self):
            task = self._loop.create_task(coroutine)
        self._loop.settle()
        return task

    def kill(self) -> None:
        """Nothing of it reaches the store any more, but what was sent already. Its tasks end."""
        self.is_dead = True
        self.executor.group_commit._closed = True
        self.executor.committed.close()
        for task in self.tasks:
            task.cancel()
        self._loop.settle()


class Mail:
    """The answers of a batch on their way: nobody knows them before they arrive. They rest on so many frames."""

    def __init__(self, process: Process, handles: list[asyncio.Handle], frames: int) -> None:
        self.process, self.frames, self._handles = process, frames, handles
        batch, _ = handles[-1]._args  # the last thing that the thread sends
        self._answers = [(call, call.outcomes) for call in batch if call.outcomes is not None]
        for call, _ in self._answers:
            call.outcomes = None

    @property
    def has_answers(self) -> bool:
        """Whether any call of the batch hears that it was done, or refused."""
        return bool(self._answers)

    def arrive(self) -> list[asyncio.Handle]:
        """What the loop gets."""
        for call, outcomes in self._answers:
            call.outcomes = outcomes
        return self._handles

    def lose(self) -> list[asyncio.Handle]:
        """What the loop gets if the connection breaks: nobody knows what became of the calls."""
        fail([call for call, _ in self._answers], OutcomeUnknown("the connection was lost"))
        return self._handles[-1:]


class NoThread:
    """Stands for the kernel's writing thread, whose work happens in turns."""

    def __init__(self, **_: Any) -> None:
        pass

    def start(self) -> None:
        """It has nothing to do."""


POLL: Final = 5.0
"""Seconds between two looks of the webhook sender for entries of other processes."""


@contextmanager
def virtual_machine(loop: VirtualLoop, randomness: Randomness, post: Any) -> Iterator[None]:
    """What the kernel takes from the machine comes from the simulation: time, randomness, threads, and requests of webhooks."""
    replaced: list[tuple[Any, str, Any]] = [
        (time, "monotonic", loop.time),
        (os, "urandom", randomness),
        (record_lease, "steady", loop.time),
        (blocking, "steady", loop.time),
        (batch_worker, "threading", SimpleNamespace(Thread=NoThread)),
        (journal_watch, "POLL", POLL),
        (attempts, "post", post),
    ]
    before = [(where, name, getattr(where, name)) for where, name, _ in replaced]
    try:
        for where, name, value in replaced:
            setattr(where, name, value)
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)
        loop.close()
