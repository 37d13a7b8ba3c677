"""An engine with points: before and after every write, and before and after every call of the application's own code.

A *strike* hits one of them: a kill (nothing after it runs, as if the process were gone), an error (the machinery says that
nothing was done), a timeout (nobody can say; behind the point the write has really happened).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from math import inf
from typing import Any, Literal, TypeVar

from msgspec import Struct

import holdkit
from holdkit import Kernel
from holdkit.core.audit_rows import Difference
from holdkit.core.commands import Group
from holdkit.core.model import Key
from holdkit.core.reading import Query
from holdkit.engines.port import Applied, Capabilities, Engine
from holdkit.engines.progress import Progress
from holdkit.kernel._sync.executor import Executor
from holdkit.testing import FakeClock

T = TypeVar("T")
When = Literal["before", "after"]
What = Literal["kill", "error", "timeout"]


class Killed(BaseException):
    """The process is gone."""


class Fault(Struct, frozen=True):
    """Where, and how."""

    at: int
    when: When
    what: What = "kill"


class FaultPoints:
    """Counts the points that are passed; strikes at one of them."""

    def __init__(self) -> None:
        self.passed = 0
        self.fault: Fault | None = None
        self.hit = False
        self.watch: Callable[[], None] | None = None
        """Called at every point, once something was struck: a rival, for example."""

    def arm(self, fault: Fault | None) -> None:
        self.passed, self.fault, self.hit = 0, fault, False

    def around(self, work: Callable[[], T], *, timeout: type[Exception] = holdkit.OutcomeUnknown) -> T:
        here, self.passed = self.passed, self.passed + 1
        self._pass(here, "before", timeout)
        result = work()
        self._pass(here, "after", timeout)
        return result

    def _pass(self, here: int, when: When, timeout: type[Exception]) -> None:
        if self.watch is not None:
            self.watch()
        fault = self.fault
        if fault is None or (fault.at, fault.when) != (here, when):
            return
        self.fault, self.hit = None, True
        if fault.what == "kill":
            raise Killed
        if fault.what == "timeout":
            raise timeout("nobody can say")
        if when == "before":
            raise holdkit.errors.EngineError("nothing was done")
        raise timeout("an error behind the commit: nobody can say")


class FaultyEngine:
    """An engine whose writes are points, as long as it is `on`. Its parts are the inner engine's."""

    capabilities = Capabilities()

    def __init__(self, inner: Engine, points: FaultPoints) -> None:
        self.inner, self.points, self.on = inner, points, False
        self.url, self.lanes, self.clock = inner.url, inner.lanes, inner.clock
        self.limits, self.stored, self.durability = inner.limits, inner.stored, inner.durability

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        if not self.on:
            return self.inner.apply(groups, until=until, wait_for_locks=wait_for_locks)
        return self.points.around(lambda: self.inner.apply(groups, until=until, wait_for_locks=wait_for_locks))

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        return self.inner.apply_in(tx, groups, lock)

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        return await self.inner.apply_in_async(tx, groups, lock)

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        return self.inner.read(query, durable=durable)

    def read_in(self, tx: Any, query: Query[T]) -> T:
        return self.inner.read_in(tx, query)

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        return await self.inner.read_in_async(tx, query)

    def listen(self, wake: Callable[[], None]) -> None:
        self.inner.listen(wake)

    def verify(self, progress: Progress | None = None) -> Generator[Difference, None, None]:
        return self.inner.verify(progress)

    def close(self) -> None:
        """The inner one lives on."""


class Sale(holdkit.Saga):
    """Sells the only unit of a pool, and notes what it saw while it did."""

    name = "sale"

    def __init__(self, points: FaultPoints, look: Callable[[], Kernel]) -> None:
        self.points, self.look = points, look
        self.effects: list[tuple[int, str]] = []
        self.undone = 0

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        return self.points.around(lambda: intent["pool"], timeout=holdkit.OutcomeUnknown)

    def validate(self, intent: Any, step: holdkit.sagas.SagaStep) -> None:
        self.points.around(lambda: None)

    def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        def happen() -> str:
            hold = self.look().get(step.hold) if step.hold is not None else None
            assert hold is not None, "an effect without a hold"
            assert (hold.state, hold.raw.deadline) == ("held", None), "an effect without its units"
            self.effects.append((step.epoch, step.op))
            return step.op

        return self.points.around(happen)

    def undo(self, intent: Any, step: holdkit.sagas.SagaStep) -> None:
        self.undone += 1


class SaleScenario:
    """One pool of one unit, one saga, one rival, on a given engine."""

    def __init__(self, inner: Engine, clock: FakeClock, pool: str = "p") -> None:
        self.clock, self.inner, self.pool = clock, inner, pool
        self.points = FaultPoints()
        self.engine = FaultyEngine(inner, self.points)
        self.calm = Kernel(Executor(inner))
        self.calm.create_pool(pool, 1)
        self.sale = Sale(self.points, lambda: self.calm)
        self.won = False

    def driver(self) -> Kernel:
        """A process of its own, as far as sagas can tell."""
        return Kernel(Executor(self.engine))

    def rival(self) -> None:
        """Takes the unit for good, the moment it is free."""
        if not self.won:
            with suppress(holdkit.InsufficientCapacity):
                self.calm.consume(self.pool, 1)
                self.won = True

    def run(self, saga_id: str, fault: Fault | None) -> str:
        """Run the saga in a new process, which may be struck: what its caller was told."""
        return self._told(fault, lambda hk: hk.sagas.register(self.sale).run(saga_id, {"pool": self.pool}).phase)

    def recover(self, fault: Fault | None = None) -> str:
        """Recover in a new process, which may be struck."""

        def recover(hk: Kernel) -> str:
            hk.sagas.register(self.sale)
            hk.sagas.recover()
            return "recovered"

        return self._told(fault, recover)

    def _told(self, fault: Fault | None, work: Callable[[Kernel], str]) -> str:
        self.points.arm(fault)
        self.engine.on = True
        try:
            return str(work(self.driver()))
        except Killed:
            return "killed"
        except holdkit.HoldkitError as error:
            return type(error).__name__
        finally:
            self.engine.on = False
