"""A saga that has ended, or is parked, stays as it is when the store fails right behind that write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

import holdkit
from holdkit import Kernel
from holdkit.core.reading import FindRecord, Query
from holdkit.engines.memory import MemoryEngine
from holdkit.faces.saga_records import KIND, decode
from holdkit.faces.saga_steps import UNFINISHED
from holdkit.kernel._sync.executor import Executor
from holdkit.testing import FakeClock

T = TypeVar("T")
LEASE = 30


class FailsBehindTheEnd(MemoryEngine):
    """Reads fail from the moment at which the saga has ended or is parked."""

    has_failed = False
    is_repaired = False

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        record = super().read(FindRecord(("", KIND, "s")))
        if record is not None and decode(record).phase not in UNFINISHED and not self.is_repaired:
            self.has_failed = True
            raise holdkit.errors.EngineError("the store is away")
        return super().read(query, durable=durable)


class Sale(holdkit.Saga):
    """Fails as often as `fails` says."""

    name, ttl, lease, max_attempts = "sale", 300, LEASE, 2
    fails = 0

    def reserve(self, intent: Any, step: holdkit.sagas.SagaStep) -> dict[str, int]:
        return {"p": 1}

    def effect(self, intent: Any, step: holdkit.sagas.SagaStep) -> str:
        if self.fails:
            self.fails -= 1
            raise ConnectionError("the other side does not answer")
        return "sold"


@pytest.fixture
def engine() -> Iterator[FailsBehindTheEnd]:
    clock = FakeClock()
    made = FailsBehindTheEnd(clock=clock)
    Kernel(Executor(made)).create_pool("p", 1)
    yield made
    made.close()


def story(hk: Kernel) -> list[tuple[str, int, str | None]]:
    """Phase, failures and error of every write."""
    events = hk.sagas.history("s")
    return [(str(event.phase), event.failures, None if event.error is None else event.error.kind) for event in events]


def test_a_saga_that_is_done_stays_done(engine: FailsBehindTheEnd) -> None:
    hk = Kernel(Executor(engine))
    assert hk.sagas.register(Sale()).run("s", {}).phase == "done"
    engine.is_repaired = True
    assert story(hk)[-1] == ("done", 0, None)
    assert [phase for phase, *_ in story(hk)].count("done") == 1


def test_a_saga_whose_last_attempt_has_succeeded_is_not_parked(engine: FailsBehindTheEnd) -> None:
    hk, sale = Kernel(Executor(engine)), Sale()
    sale.fails = 1
    registered = hk.sagas.register(sale)
    with pytest.raises(holdkit.OutcomeUnknown):
        registered.run("s", {})
    assert registered.run("s", {}).phase == "done"
    engine.is_repaired = True
    assert [phase for phase, *_ in story(hk)][-2:] == ["finalizing", "done"]


def test_a_saga_is_parked_once(engine: FailsBehindTheEnd) -> None:
    hk = Kernel(Executor(engine))
    seen: list[str] = []

    class Confirmed(Sale):
        """An operator confirms its hold by force, before its point of no return."""

        def validate(self, intent: Any, step: holdkit.sagas.SagaStep) -> None:
            assert step.hold is not None
            hk.admin.confirm(step.hold.id, reason="by force")
            seen.append(step.hold.id)

    with pytest.raises(holdkit.errors.SagaParked):
        hk.sagas.register(Confirmed()).run("s", {})
    assert len(seen) == 1
    engine.is_repaired = True
    assert [phase for phase, *_ in story(hk)].count("parked") == 1
