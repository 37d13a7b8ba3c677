"""A driver that was paused and has lost its lease can write nothing more; and how we would notice if it could."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import holdkit
from holdkit.core.commands import PutRecord
from holdkit.core.model import SECOND
from holdkit.faces import saga_records
from holdkit.faces._sync import saga_driving, saga_store
from holdkit.kernel import record_lease
from holdkit.testing import FakeClock
from tests.unit.faces.sagas.scripted_saga import ScriptedSaga


def sleep_and_wake(url: str) -> tuple[str, list[Any], holdkit.Kernel]:
    """A driver sleeps in its effect; another takes over and finishes; it wakes. What its caller is told, and the others."""
    clock, told = FakeClock(), list[Any]()
    if url.startswith("postgres"):
        holdkit.migrate(url)
    hk = holdkit.connect(url, clock=clock)
    hk.create_pool("p", 2)
    other = holdkit.Kernel(hk._executor)  # a driver of its own, on the same storage

    def work(_intent: Any, step: holdkit.sagas.SagaStep) -> str:
        if step.epoch == 1:
            clock.advance(30)
            told.append(other.sagas.recover())
        return f"by {step.epoch}"

    other.sagas.register(ScriptedSaga(effect=work))
    try:
        said = hk.sagas.register(ScriptedSaga(effect=work)).run("a", {"pool": "p"}).result
    except holdkit.HoldkitError as error:
        said = f"{type(error).__name__}: {error}"
    return said, told, hk


@pytest.mark.parametrize("engine", ["memory", "sqlite", "postgres"])
def test_it_wakes_and_has_no_say(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/holds.db"}
    said, told, hk = sleep_and_wake(urls.get(engine) or request.getfixturevalue("postgres_url"))
    with hk:
        assert said.startswith("OutcomeUnknown: holdkit: saga 'a' was taken over")
        assert told == [holdkit.sagas.RecoveryReport(done=1)]
        record = hk.sagas.get("a")
        assert record is not None
        assert (record.result, record.epoch) == ("by 2", 2)
        assert (hk.pool("p").held, hk.pool("p").consumed) == (0, 1)
        assert hk.admin.verify().ok


def test_canary_writing_without_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the version in each step the sleeper writes over what the other did."""

    def careless(*step: Any) -> list[Any]:
        return [
            replace(command, if_version=None) if isinstance(command, PutRecord) else command
            for command in saga_records.step_commands(*step)
            if isinstance(command, PutRecord) or step[2].epoch != 1 or step[2].phase != "done"
        ]

    monkeypatch.setattr(saga_driving, "step_commands", careless)
    said, told, hk = sleep_and_wake("memory://")
    with hk:
        assert told == [holdkit.sagas.RecoveryReport(done=1)]
        assert said == "by 1"  # the stale driver had the last word: the promise above would be broken


def test_one_that_is_begun_anew_while_the_old_ones_are_being_forgotten_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = FakeClock()

    def refuse(*_: Any) -> None:
        raise LookupError("the account is closed")

    def vanish(*_: Any) -> None:
        raise Gone

    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("p", 2)
        registered = hk.sagas.register(ScriptedSaga(validate=refuse))
        with pytest.raises(LookupError):
            registered.run("a", {"pool": "p"})
        clock.advance(30 * 86_400)
        other = holdkit.Kernel(hk._executor).sagas.register(ScriptedSaga(effect=vanish))
        now = saga_store.SagaReads._now

        def slowly(self: Any) -> int:  # the old ones are listed by then
            monkeypatch.setattr(saga_store.SagaReads, "_now", now)
            with pytest.raises(Gone):
                other.run("a", {"pool": "p"})
            return now(self)

        monkeypatch.setattr(saga_store.SagaReads, "_now", slowly)
        assert hk.sagas._prune() == 0
        record = hk.sagas.get("a")
        assert record is not None
        assert record.phase == "finalizing"
        clock.advance(30)
        assert hk.sagas.recover() == holdkit.sagas.RecoveryReport(done=1)
        assert [len(hk.admin.records.list(kind)) for kind in ("~saga", "~saga.open", "~saga.ended")] == [1, 0, 1]
        assert hk.admin.verify().ok


def test_a_clock_that_was_set_back_keeps_recovery_away_for_one_lease_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, seconds = FakeClock(start=7_200 * SECOND), [100.0]
    monkeypatch.setattr(record_lease, "steady", lambda: seconds[0])

    def vanish(_intent: Any, step: holdkit.sagas.SagaStep) -> str:
        if step.epoch == 1:
            raise Gone
        return "ran"

    with holdkit.connect("memory://", clock=clock) as hk:
        hk.create_pool("p", 2)
        registered = hk.sagas.register(ScriptedSaga(effect=vanish))
        with pytest.raises(Gone):
            registered.run("a", {"pool": "p"})
        clock.advance(-3_600)
        assert hk.sagas.recover() == holdkit.sagas.RecoveryReport(busy=1)
        seconds[0] += 29.9
        assert hk.sagas.recover() == holdkit.sagas.RecoveryReport(busy=1)
        seconds[0] += 0.1
        assert hk.sagas.recover() == holdkit.sagas.RecoveryReport(done=1)
        assert hk.admin.verify().ok


class Gone(BaseException):
    """The process is gone."""
