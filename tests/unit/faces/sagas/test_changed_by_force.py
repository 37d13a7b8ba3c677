"""An operator confirms a saga's hold by force while its driver works: nothing is consumed twice, nothing stays behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import holdkit
from holdkit.testing import FakeClock
from tests.unit.faces.sagas.scripted_saga import ScriptedSaga

FORCE: dict[str, Any] = {"reason": "admin_override"}
INTENT = {"pool": "p"}


class Confirming(ScriptedSaga):
    """Holds 2 of p; in one of its steps an operator confirms 1 of them, or both."""

    def __init__(self, hk: holdkit.Kernel, within: str, quantity: int | None) -> None:
        super().__init__()
        self.hk, self.within, self.quantity = hk, within, quantity
        self.raises = False

    def _step(self, name: str, intent: Any, step: holdkit.sagas.SagaStep, otherwise: Any = None) -> Any:
        if name == self.within and step.hold is not None:
            self.hk.admin.confirm(step.hold.id, quantity=self.quantity, keep_rest=self.quantity is not None, **FORCE)
        if name == "validate" and self.raises:
            self.calls.append(name)
            raise LookupError("the account is closed")
        return super()._step(name, intent, step, {"p": 2} if name == "reserve" else otherwise)


@pytest.fixture(params=["memory", "sqlite"])
def hk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[holdkit.Kernel]:
    with holdkit.connect("memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/holds.db") as kernel:
        kernel.create_pool("p", 9)
        yield kernel
        assert kernel.admin.verify().ok


@pytest.mark.parametrize("quantity", [None, 1])
@pytest.mark.parametrize(("within", "calls"), [("validate", 2), ("undo", 3)])
def test_an_abort_parks_instead(hk: holdkit.Kernel, quantity: int | None, within: str, calls: int) -> None:
    saga = Confirming(hk, within, quantity)
    saga.raises = True
    registered = hk.sagas.register(saga)
    with pytest.raises(holdkit.errors.SagaParked):
        registered.run("a", INTENT)
    assert saga.calls == ["reserve", "validate", "undo"][:calls]
    assert hk.pool("p").consumed == (quantity or 2)


@pytest.mark.parametrize("attempts", [1, 3])
def test_the_point_of_no_return_is_not_passed(
    hk: holdkit.Kernel, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    saga = Confirming(hk, "validate", None)
    monkeypatch.setattr(Confirming, "max_attempts", attempts)
    with pytest.raises(holdkit.errors.SagaParked):
        hk.sagas.register(saga).run("a", INTENT)
    assert saga.calls == ["reserve", "validate"]
    assert (hk.pool("p").held, hk.pool("p").consumed) == (0, 2)


def test_a_part_confirmed_before_it_counts_as_the_sagas_own(hk: holdkit.Kernel) -> None:
    saga = Confirming(hk, "validate", 1)
    assert hk.sagas.register(saga).run("a", INTENT).phase == "done"
    assert saga.calls == ["reserve", "validate", "effect"]
    assert (hk.pool("p").held, hk.pool("p").consumed) == (0, 2)


@pytest.mark.parametrize("quantity", [None, 1])
def test_behind_it_the_saga_is_done_and_its_result_is_kept(hk: holdkit.Kernel, quantity: int | None) -> None:
    saga = Confirming(hk, "effect", quantity)
    record = hk.sagas.register(saga).run("a", INTENT)
    assert (record.phase, record.result) == ("done", "ran")
    assert saga.calls.count("effect") == 1
    assert (hk.pool("p").held, hk.pool("p").consumed) == (0, 2)


def test_an_attempt_is_not_abandoned_once_a_part_of_it_is_confirmed(hk: holdkit.Kernel) -> None:
    """The operator confirms a part between the driver's look at the hold and the next attempt."""
    first: list[str] = []

    def reserve(_intent: Any, step: holdkit.sagas.SagaStep) -> dict[str, int]:
        if step.attempt == 2:
            hk.admin.confirm(first[0], quantity=1, keep_rest=True, **FORCE)
        return {"p": 2}

    def validate(_intent: Any, step: holdkit.sagas.SagaStep) -> None:
        assert step.hold is not None
        first.append(step.hold.id)
        raise holdkit.Overloaded("later", retry_after=1)  # says nothing about the saga: it is driven again

    registered = hk.sagas.register(ScriptedSaga(reserve=reserve, validate=validate))
    with pytest.raises(holdkit.OutcomeUnknown):
        registered.run("a", INTENT)
    with pytest.raises(holdkit.errors.SagaParked):
        registered.run("a", INTENT)
    assert (hk.pool("p").held, hk.pool("p").consumed) == (1, 1)


class Gone(BaseException):
    """The process is gone."""


@pytest.fixture
def old(tmp_path: Path) -> Iterator[tuple[holdkit.Kernel, FakeClock]]:
    """A kernel whose journal can be archived, with its clock."""
    clock, data = FakeClock(1_700_000_000_000_000), tmp_path / "holds"
    with holdkit.connect(f"sqlite:///{data}", clock=clock) as kernel:
        kernel.create_pool("p", 9)
        yield kernel, clock
        assert kernel.admin.verify().ok


def left_behind(hk: holdkit.Kernel, saga: ScriptedSaga, within: str = "validate") -> str:
    """Drive a saga until its process is gone; returns its hold."""

    def vanish(*_: Any) -> None:
        raise Gone

    saga.script[within] = vanish
    with pytest.raises(Gone):
        hk.sagas.register(saga).run("a", INTENT)
    del saga.script[within]
    record = hk.sagas.get("a")
    assert record is not None
    assert record.hold is not None
    return record.hold


def archive_all(hk: holdkit.Kernel, clock: FakeClock, to: Path) -> None:
    """Two years later the hold is dropped, and every entry about it is archived."""
    for _ in range(4):  # dropping it is an entry itself
        clock.advance(201 * 86_400)
        hk.sweep()
        hk.sweep()
    hk.create_pool("q", 1)  # the newest entry always stays
    hk.admin.archive(before="1d", to=to)


@pytest.mark.parametrize("forced", [True, False])
def test_a_saga_whose_hold_nothing_tells_of_any_more_is_parked(
    old: tuple[holdkit.Kernel, FakeClock], tmp_path: Path, forced: bool
) -> None:
    """Retention has dropped the hold, and its entries are archived: units of it may still be consumed, or not."""
    hk, clock = old
    saga = ScriptedSaga()
    hold = left_behind(hk, saga)
    if forced:
        hk.admin.confirm(hold, **FORCE)
    archive_all(hk, clock, tmp_path / "archive")
    assert hk.history(hold) == []
    assert hk.sagas.recover() == holdkit.sagas.RecoveryReport(parked=1)
    parked = hk.sagas.get("a")
    assert parked is not None
    assert parked.error is not None
    assert parked.error.message == f"its hold {hold} is no longer kept, and units of it may still be consumed"
    assert saga.calls == ["reserve", "validate"]
    assert hk.pool("p").consumed == forced
    with pytest.raises(holdkit.InvalidRequest, match="End it by hand"):
        hk.sagas.retry("a", reason="once more")
    assert hk.sagas.resolve("a", "cancelled", reason="I looked").phase == "aborted"


def test_an_aborted_saga_is_run_again_however_old_it_is(old: tuple[holdkit.Kernel, FakeClock], tmp_path: Path) -> None:
    hk, clock = old

    def refuse(*_: Any) -> None:
        raise LookupError("the account is closed")

    saga = ScriptedSaga(validate=refuse)
    registered = hk.sagas.register(saga)
    with pytest.raises(LookupError):
        registered.run("a", INTENT)
    archive_all(hk, clock, tmp_path / "archive")
    del saga.script["validate"]
    record = registered.run("a", INTENT)
    assert (record.phase, record.attempt) == ("done", 2)
