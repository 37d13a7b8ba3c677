"""One way to drive sync and async, and an engine that can be stopped, watched and broken at will."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from msgspec import structs

from holdkit import AsyncKernel, Kernel
from holdkit.core.audit_rows import Difference
from holdkit.core.commands import Group
from holdkit.core.model import Key, Limits
from holdkit.core.reading import Query
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.metering import Progress
from holdkit.engines.port import Applied, Engine
from holdkit.kernel._async.executor import AsyncExecutor
from holdkit.kernel._sync.executor import Executor
from holdkit.testing import FakeClock

T = TypeVar("T")

PATIENCE = 120.0
"""Seconds after which a test that waits for a signal has failed: many, for a machine may be slow. Never slept."""


class WatchedEngine:
    """A memory engine behind a gate. `before` and `after` see each batch and may raise; `batches` are the sizes applied."""

    url = "memory://"
    lanes = 1

    def __init__(self, clock: FakeClock | None = None, limits: Limits | None = None) -> None:
        self.fake = clock or FakeClock()
        self.inner = MemoryEngine(clock=self.fake, limits=limits)
        self.limits, self.stored, self.clock = self.inner.limits, self.inner.stored, self.inner.clock
        self.durability = self.inner.durability
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.batches: list[int] = []
        self.before: Callable[[Sequence[Group]], None] | None = None
        self.after: Callable[[Sequence[Group]], None] | None = None
        self.reading: Callable[[Query[Any]], None] | None = None
        self.closed = False
        self.alone = True
        """Whether nobody else writes, so that the journal's length proves something."""

    def apply(self, groups: Sequence[Group], *, wait_for_locks: bool = False) -> Applied:
        self.entered.release()
        assert self.gate.wait(PATIENCE), "the gate was never opened"
        if self.before is not None:
            self.before(groups)
        self.batches.append(len(groups))
        applied = self.inner.apply(groups, wait_for_locks=wait_for_locks)
        if self.after is not None:
            self.after(groups)
        return applied if self.alone else structs.replace(applied, last_seq=None)

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        return self.inner.apply_in(tx, groups, lock)

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        return self.apply_in(tx, groups, lock)

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        if self.reading is not None:
            self.reading(query)
        return self.inner.read(query, durable=durable)

    def listen(self, wake: Callable[[], None]) -> None:
        """There are no others."""

    def verify(self, progress: Progress | None = None) -> Iterator[Difference]:
        return self.inner.verify(progress)

    def close(self) -> None:
        self.closed = True
        self.inner.close()

    def wait_entered(self) -> None:
        """Wait until a batch stands before the gate."""
        assert self.entered.acquire(timeout=PATIENCE), "no batch came"


COLOURED = ("holdkit.kernel._async", "holdkit.faces._async", "holdkit.client._async")


class Sync:
    """The sync colour as it is."""

    name = "sync"

    def open(self, engine: Engine) -> Any:
        return Kernel(Executor(engine))

    def run(self, work: Callable[[], T]) -> T:
        return work()

    def close(self) -> None:
        pass


class Async:
    """The async colour, driven from outside: its loop has a thread of its own."""

    name = "async"

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="test-loop", daemon=True)
        self._thread.start()

    def open(self, engine: Engine) -> Any:
        async def build() -> AsyncKernel:
            return AsyncKernel(AsyncExecutor(engine))

        return self.run(build)

    def run(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Call it on the loop, in the caller's context; wait for what it gives, if that can be awaited."""
        future: Future[Any] = Future()
        context = contextvars.copy_context()

        async def call() -> None:
            try:
                result = work(*arguments, **named)
                future.set_result(await result if inspect.isawaitable(result) else result)
            except BaseException as error:  # noqa: BLE001 - the caller gets it
                future.set_exception(error)

        self.loop.call_soon_threadsafe(lambda: self._keep(self.loop.create_task(call(), context=context)))
        return self.wrap(future.result(PATIENCE))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def wrap(self, value: Any) -> Any:
        module = type(value).__module__
        if inspect.isasyncgen(value):
            return self._iterate(value)
        return Driven(self, value) if module.startswith(COLOURED) else value

    def _iterate(self, generator: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self.run(generator.__anext__)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if threading.current_thread() is self._thread:  # collected there: it cannot wait for itself
                self._keep(self.loop.create_task(generator.aclose()))
            elif not self.loop.is_closed():
                self.run(generator.aclose)

    def close(self) -> None:
        self.run(self.loop.shutdown_asyncgens)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        self.loop.close()


class Driven:
    """Something of the async colour, called as if it were sync."""

    def __init__(self, mode: Async, thing: Any) -> None:
        self._colour, self._thing = mode, thing

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._thing, "aclose" if name == "close" else name)
        if type(value).__module__.startswith(COLOURED[1:]):
            return Driven(self._colour, value)
        if inspect.ismethod(value):
            return lambda *arguments, **named: self._colour.run(value, *arguments, **named)
        return value

    def __enter__(self) -> Any:
        return self._colour.run(self._thing.__aenter__)

    def __exit__(self, *error: object) -> Any:
        return self._colour.run(self._thing.__aexit__, *error)

    def __repr__(self) -> str:
        return repr(self._thing)


class CallerThreads:
    """Threads that each make one call, with what came back; so that sync and async can have many callers."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self.results: dict[int, Any] = {}

    def start(self, call: Callable[[], Any]) -> int:
        number = len(self._threads)

        def run() -> None:
            try:
                self.results[number] = call()
            except BaseException as error:  # noqa: BLE001 - the test looks at it
                self.results[number] = error

        self._threads.append(threading.Thread(target=run, name=f"rider-{number}", daemon=True))
        self._threads[-1].start()
        return number

    def join(self) -> list[Any]:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), f"{thread.name} is stuck"
        return [self.results[number] for number in range(len(self._threads))]


def wait_until(condition: Callable[[], bool]) -> None:
    """Spin, yielding the processor, until another thread has got there: for states that give no signal."""
    ended = threading.Event()
    for _ in range(int(PATIENCE * 2000)):
        if condition():
            return
        ended.wait(0.0005)
    raise AssertionError("it never came")


def queued(kernel: Any) -> int:
    """How many submissions wait."""
    thing = kernel._thing if isinstance(kernel, Driven) else kernel
    return len(thing._executor.group_commit._queue)


@contextmanager
def batch_of(kernel: Any, engine: WatchedEngine, calls: Sequence[Callable[[], Any]]) -> Iterator[CallerThreads]:
    """All calls in one batch: a first command stands before the gate until all are queued. The block may add more."""
    engine.gate.clear()
    engine.entered = threading.Semaphore(0)
    callers = CallerThreads()
    first = CallerThreads()
    first.start(lambda: kernel.put_record("first", "x", "1"))
    engine.wait_entered()
    try:
        for index, call in enumerate(calls):
            callers.start(call)
            wait_until(lambda index=index: queued(kernel) == index + 1)  # type: ignore[misc]
        yield callers
    finally:
        engine.gate.set()
        callers.join()
        first.join()


def no_threads_left(but: set[threading.Thread]) -> None:
    """Every thread of ours is gone."""
    for thread in set(threading.enumerate()) - but:
        if thread.name.startswith("holdkit"):
            thread.join(PATIENCE)
    left = [thread.name for thread in set(threading.enumerate()) - but if thread.name.startswith("holdkit")]
    assert not left, left


def close_quietly(kernel: Any) -> None:
    with suppress(Exception):
        kernel.close()
