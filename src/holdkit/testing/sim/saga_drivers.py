"""Drivers of sagas in a simulated run: the real face, one request at a time.

The face's own code runs, as coroutines without an event loop: each stops before every write, and within its effect,
until the plan gives it a turn. Between two turns anything may happen: another driver, a clock that jumps, a crash of
the machine. Effects are recorded outside of the engine: no crash takes them back. Writes through the world alone.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from ...core.commands import Group
from ...core.outcomes import Outcome
from ...core.reading import FindRecord, Query
from ...engines.log.engine import LogEngine
from ...errors import HoldkitError
from ...faces._async.sagas import AsyncSagas
from ...faces.saga import Saga
from ...faces.saga import SagaStep as Step
from ...faces.saga_records import KIND, decode
from ...faces.saga_steps import Phase
from ...kernel._async.executor import AsyncExecutor
from ...kernel.prepare import Mint, Randomness
from ...kernel.workers import AsyncSignal, AsyncWork
from .saga_plan import Intent

T = TypeVar("T")
Apply = Callable[[Group], list[Outcome]]
"""Sends a group to the engine of this run; raises what the caller of an engine gets."""

MOST_FAILURES: Final = 3
NAME: Final = "sale"

log = logging.getLogger("holdkit")


class Request(Struct, frozen=True):
    """What a driver waits for: that its group is applied or, without a group, merely its turn."""

    group: Group | None = None

    def __await__(self) -> Generator[Request, list[Outcome], list[Outcome]]:
        return (yield self)


class Effects:
    """What effects have done in other systems, which no crash takes back."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.early: list[str] = []
        """Sagas whose effect ran before their point of no return."""


class Sale(Saga):
    """The application's part. Its effect can be interrupted before and after what it does."""

    name, ttl, lease, max_attempts = NAME, 0.0006, 0.001, MOST_FAILURES  # 600 and 1,000 slots

    def __init__(self, effects: Effects, engine: Callable[[], LogEngine]) -> None:
        self._effects, self._engine = effects, engine

    def reserve(self, intent: Any, step: Step) -> dict[str, int]:  # noqa: ARG002  (as the base has it)
        """As the plan says."""
        return msgspec.convert(intent, Intent).take

    def validate(self, intent: Any, step: Step) -> None:  # noqa: ARG002  (as the base has it)
        """Raises if the plan says so."""
        if msgspec.convert(intent, Intent).rejects:
            raise ValueError("on second thoughts, no")

    async def effect(self, intent: Any, step: Step) -> int:
        """Counts; fails as often as the plan says."""
        await Request()
        self._look(step.id)
        self._effects.tried[step.id] += 1
        if self._effects.tried[step.id] <= msgspec.convert(intent, Intent).fails:
            raise ConnectionError("the other side does not answer")
        self._effects.done[step.id] += 1
        await Request()
        return self._effects.done[step.id]

    def _look(self, saga: str) -> None:
        record = self._engine().read(FindRecord(("", KIND, saga)))
        if record is not None and decode(record).phase in (Phase.RESERVING, Phase.ABORTED):
            self._effects.early.append(saga)


class SagaTask:
    """A coroutine of the face, and the request it waits for."""

    def __init__(self, coroutine: Coroutine[Request, list[Outcome], Any]) -> None:
        self._coroutine = coroutine
        self.over = False
        self.error: Exception | None = None
        self.request: Request | None = None
        self._resume(lambda: coroutine.send(None))  # type: ignore[arg-type]

    def answer(self, outcomes: list[Outcome]) -> None:
        """Continue to the next request."""
        self._resume(lambda: self._coroutine.send(outcomes))

    def fail(self, error: HoldkitError) -> None:
        """Continue with an error instead of an answer."""
        self._resume(lambda: self._coroutine.throw(error))

    def close(self) -> None:
        """Its machine has stopped."""
        self._coroutine.close()

    def _resume(self, step: Callable[[], Request]) -> None:
        quiet, log.disabled = log.disabled, True  # the plan causes these errors on purpose
        try:
            self.request = step()
        except StopIteration:
            self.over = True
        except Exception as error:  # noqa: BLE001 - kept as `error` for whoever ran the saga; the run continues
            self.over, self.error = True, error
        finally:
            log.disabled = quiet


class SagaTasks:
    """All tasks that drive sagas on one machine. A crash ends them all; their effects stay."""

    def __init__(self, engine: Callable[[], LogEngine], randomness: Randomness, apply: Apply) -> None:
        self.effects = Effects()
        self.drivers: list[SagaTask] = []
        self._engine, self._randomness, self._apply = engine, randomness, apply

    def crash(self) -> None:
        """The machine stops."""
        gone, self.drivers = self.drivers, []
        for driver in gone:
            driver.over = True  # first, so that no task waits for the lease renewal of another that has ended
        for driver in gone:
            driver.close()

    def start(self, what: Callable[[AsyncSagas], Coroutine[Any, Any, Any]]) -> SagaTask:
        """One more task; it stops before its first write."""
        executor = _Executor(self, self._engine(), self._randomness)
        sagas = AsyncSagas(executor, "")
        sagas.register(Sale(self.effects, self._engine))
        return self.start_worker(SagaTask(what(sagas)))

    def start_worker(self, driver: SagaTask) -> SagaTask:
        """From now on it gets turns, unless it has ended already."""
        if not driver.over:
            self.drivers.append(driver)
        return driver

    def run(self, saga: str, intent: Intent) -> SagaTask:
        """Run a saga."""
        wanted = msgspec.to_builtins(intent)
        return self.start(lambda sagas: sagas._store.run(sagas._registered[NAME], saga, wanted))

    def advance(self, driver: SagaTask) -> None:
        """Give a task what it waits for."""
        request = driver.request
        assert request is not None
        if request.group is None:
            driver.answer([])
        else:
            try:
                outcomes = self._apply(request.group)
            except HoldkitError as error:
                if not driver.over:  # else the machine has stopped meanwhile, and no task is left to receive it
                    driver.fail(error)
            else:
                if not driver.over:
                    driver.answer(outcomes)
        if driver.over:
            self.remove(driver)

    def remove(self, driver: SagaTask) -> None:
        """It gets no more turns of its own."""
        if driver in self.drivers:
            self.drivers.remove(driver)


class _GroupCommit:
    """As much of the kernel's group commit as the face uses."""

    def __init__(self, engine: LogEngine) -> None:
        self.engine = engine

    async def submit(self, group: Group) -> list[Outcome]:
        """Wait for a turn."""
        return await Request(group)

    async def read(self, query: Query[T], tx: None = None, *, durable: bool = False) -> T:  # noqa: ARG002  (never one)
        """At once: what is read may be old when something is written, and the write must notice it."""
        return self.engine.read(query, durable=durable)


class _Executor(AsyncExecutor):
    """The kernel's executor, with the plan as its queue."""

    def __init__(self, tasks: SagaTasks, engine: LogEngine, randomness: Randomness) -> None:
        self.engine, self.mint = engine, Mint(engine.clock, randomness)
        self.group_commit = _GroupCommit(engine)  # type: ignore[assignment]
        self._tasks = tasks

    @property
    def closed(self) -> bool:
        """Never: a crash ends the tasks themselves."""
        return False

    def start_worker(self, work: AsyncWork, name: str, stop: AsyncSignal) -> Any:  # noqa: ARG002  (its name is not used here)
        """The renewal of a lease is one more task: each of its waits lasts until its next turn."""

        async def wait(_seen: int, _seconds: float) -> int:
            await Request()
            return 0

        stop.wait = wait  # type: ignore[assignment, method-assign]
        return _Renewer(self._tasks, self._tasks.start_worker(SagaTask(work())), stop)  # type: ignore[arg-type]


class _Renewer:
    """Replaces the kernel's worker."""

    def __init__(self, tasks: SagaTasks, driver: SagaTask, stop: AsyncSignal) -> None:
        self._tasks, self._driver, self._stop = tasks, driver, stop

    async def end(self) -> None:
        """It stops at its next turn; a write that it has begun is finished first, in turns of the task that waits
        for it."""
        self._stop.closed = True
        self._tasks.remove(self._driver)
        while not self._driver.over:
            assert self._driver.request is not None
            try:
                outcomes = await self._driver.request
            except HoldkitError as error:
                self._driver.fail(error)
            else:
                self._driver.answer(outcomes)
