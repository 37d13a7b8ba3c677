"""A memory engine that can be stopped, watched and broken at will, and batches made of exactly these calls."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any, TypeVar

from msgspec import structs

from holdkit.core.audit_rows import Difference
from holdkit.core.bounds import Limits
from holdkit.core.commands import Group
from holdkit.core.model import Key
from holdkit.core.reading import Query
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Applied, Capabilities
from holdkit.engines.progress import Progress
from holdkit.testing import FakeClock
from tests.support.modes import unwrapped
from tests.support.threads import PATIENCE, CallerThreads, wait_until

T = TypeVar("T")


class WatchedEngine:
    """A memory engine behind a gate. `before` and `after` see each batch and may raise; `batches` are the sizes applied, and `until` is
    the deadline of the last one."""

    url = "memory://"
    lanes = 1
    capabilities = Capabilities()

    def __init__(self, clock: FakeClock | None = None, limits: Limits | None = None) -> None:
        self.fake = clock or FakeClock()
        self.inner = MemoryEngine(clock=self.fake, limits=limits)
        self.limits, self.stored, self.clock = self.inner.limits, self.inner.stored, self.inner.clock
        self.durability = self.inner.durability
        self.gate = threading.Event()
        self.gate.set()
        self.entered = threading.Semaphore(0)
        self.batches: list[int] = []
        self.until: float | None = None
        self.before: Callable[[Sequence[Group]], None] | None = None
        self.after: Callable[[Sequence[Group]], None] | None = None
        self.reading: Callable[[Query[Any]], None] | None = None
        self.closed = False
        self.alone = True
        """Whether nobody else writes, so that the journal's length proves something."""

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        self.entered.release()
        assert self.gate.wait(PATIENCE), "the gate was never opened"
        self.until = until
        if self.before is not None:
            self.before(groups)
        self.batches.append(len(groups))
        applied = self.inner.apply(groups, until=until, wait_for_locks=wait_for_locks)
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

    def read_in(self, tx: Any, query: Query[T]) -> T:
        return self.inner.read_in(tx, query)

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        return self.read_in(tx, query)

    def listen(self, wake: Callable[[], None]) -> None:
        """There are no others."""

    def verify(self, progress: Progress | None = None) -> Generator[Difference, None, None]:
        return self.inner.verify(progress)

    def close(self) -> None:
        self.closed = True
        self.inner.close()

    def wait_entered(self) -> None:
        """Wait until a batch stands before the gate."""
        assert self.entered.acquire(timeout=PATIENCE), "no batch came"


def queued(kernel: Any) -> int:
    """How many submissions wait."""
    return len(unwrapped(kernel)._executor.group_commit.main.queue)


@contextmanager
def batch_of(kernel: Any, engine: WatchedEngine, calls: Sequence[Callable[[], Any]]) -> Iterator[CallerThreads]:
    """All calls in one batch: a first command stands before the gate until all are queued. The block may add more."""
    engine.gate.clear()
    engine.entered = threading.Semaphore(0)
    callers = CallerThreads()
    first = CallerThreads()
    first.start(lambda: kernel.admin.records.put("first", "x", "1"))
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
