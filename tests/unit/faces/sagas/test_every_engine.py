"""Sagas on every engine in sync and async: leases, recovery, poison, operators; and the effect in the confirm's transaction."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import holdkit
from holdkit.core.commands import PutRecord
from holdkit.kernel.times import moment
from tests.support.kernels import Store, differences
from tests.support.modes import unwrapped
from tests.unit.faces.sagas.scripted_saga import ScriptedSaga, opened

INTENT = {"pool": "p"}


class Gone(BaseException):
    """The process is gone."""


def write_raw(store: Store, hk: Any, *commands: PutRecord) -> None:
    """Past the face, as a bug or a later release would."""
    store.mode.run(unwrapped(hk)._executor.execute_together, list(commands))


def vanish(*_: Any) -> Any:
    raise Gone


def test_a_lease_is_told_by_the_engines_clock_to_the_slot(store: Store) -> None:
    _, sagas, registered, saga = opened(store, effect=vanish)
    with pytest.raises(Gone):
        registered.run("a", INTENT)
    del saga.script["effect"]
    store.clock.advance(29.999999)
    with pytest.raises(holdkit.errors.SagaBusy) as busy:
        registered.run("a", INTENT)
    assert busy.value.retry_after == pytest.approx(0.000001)
    assert sagas.recover() == holdkit.sagas.RecoveryReport(busy=1)
    assert saga.calls.count("effect") == 1
    store.clock.advance(0.000001)
    assert registered.run("a", INTENT).epoch == 2
    assert saga.calls.count("effect") == 2


def test_what_the_effect_is_told(store: Store) -> None:
    seen: list[holdkit.sagas.SagaStep] = []
    hk, _, registered, _ = opened(store, effect=lambda _intent, step: seen.append(step))
    with holdkit.context(actor="user:7", correlation_id="request-9"):
        record = registered.run("a", INTENT)
    (step,) = seen
    assert (step.id, step.name, step.attempt, step.epoch, step.op) == ("a", "errand", 1, 1, "saga:a:1")
    assert step.hold is not None
    assert (step.hold.id, step.hold.token, step.hold.raw.deadline, step.hold.metadata["saga"]) == (
        record.hold,
        None,
        None,
        "a",
    )
    hold = hk.get(record.hold)
    assert (hold.state, hold.entity, hold.actor, hold.correlation_id) == ("confirmed", "saga:a", "user:7", "request-9")
    assert [entry.action for entry in hk.history(record.hold)] == ["hold.held", "hold.extended", "hold.confirmed"]


def test_begun_and_left_to_recovery(store: Store) -> None:
    _, sagas, registered, saga = opened(store)
    assert registered.begin("a", INTENT).phase == "reserving"
    assert registered.begin("a", INTENT).epoch == 0
    assert saga.calls == []
    assert sagas.recover(limit=1) == holdkit.sagas.RecoveryReport(done=1)
    assert registered.begin("a", INTENT).phase == "done"


def test_to_raise_before_the_point_of_no_return_means_to_abort(store: Store) -> None:
    def no(_intent: Any, _step: holdkit.sagas.SagaStep) -> None:
        raise LookupError("the account is closed\x00")

    hk, sagas, registered, saga = opened(store, validate=no)
    with pytest.raises(LookupError):
        registered.run("a", INTENT)
    record = sagas.get("a")
    assert (record.phase, record.error) == ("aborted", holdkit.sagas.SagaError("LookupError", "the account is closed "))
    assert hk.get(record.hold).state == "released"
    assert saga.calls == ["reserve", "validate", "undo"]
    assert (hk.pool("p").held, hk.pool("p").consumed) == (0, 0)


def test_poison_is_parked_and_stops_nobody(store: Store) -> None:
    def fail(intent: Any, step: holdkit.sagas.SagaStep) -> None:
        if step.id == "b":
            raise ValueError("always")

    hk, sagas, registered, saga = opened(store, effect=fail)
    for name in ("a", "b", "c"):
        if name == "c":
            hk.admin.resize_pool("p", 3)
        registered.begin(name, INTENT)
    assert sagas.recover() == holdkit.sagas.RecoveryReport(done=2, failed=1)
    assert sagas.recover() == holdkit.sagas.RecoveryReport(failed=1)
    assert [record.id for record in sagas.stuck("1s")] == []
    store.clock.advance(1)
    assert [record.id for record in sagas.stuck("1s")] == ["b"]
    assert sagas.recover() == holdkit.sagas.RecoveryReport(parked=1)
    assert sagas.recover() == holdkit.sagas.RecoveryReport()
    (parked,) = sagas.list(phase="parked")
    assert (parked.id, parked.failures, parked.error) == ("b", 3, holdkit.sagas.SagaError("ValueError", "always"))
    assert [record.id for record in sagas.stuck("1d")] == ["b"]
    with pytest.raises(holdkit.errors.SagaParked):
        registered.run("b", INTENT)
    assert (hk.pool("p").held, hk.pool("p").consumed) == (1, 2)  # its units are neither lost nor free
    resolved = sagas.resolve("b", "cancelled", reason="the customer left")
    assert (resolved.phase, hk.pool("p").held) == ("aborted", 0)
    assert saga.calls.count("effect") == 5
    assert differences(hk) == ()


def test_what_cannot_be_read_is_set_aside(store: Store) -> None:
    hk, sagas, registered, _ = opened(store)
    registered.begin("good", INTENT)
    newer = '{"format":2,"name":"errand","phase":"frobnicating"}'
    foreign = msgspec.json.decode(hk.admin.records.get("~saga", "good").body) | {"name": "of another service"}
    bodies = {"bad": '{"format":1}', "list": "[]", "newer": newer, "foreign": msgspec.json.encode(foreign).decode()}
    for name, body in bodies.items():
        put = PutRecord(kind="~saga", id=name, body=body)
        write_raw(store, hk, put, PutRecord(kind="~saga.open", id=name, body="{}"))
    assert sagas.recover() == holdkit.sagas.RecoveryReport(done=1, parked=2, skipped=2)
    assert sagas.recover() == holdkit.sagas.RecoveryReport(skipped=2)
    assert [(record.id, record.error.kind) for record in sagas.list(phase="parked")] == [
        ("bad", "Unreadable"), ("list", "Unreadable")]  # fmt: skip
    assert hk.admin.records.get("~saga", "bad").body == '{"format":1}'  # its text is all there is: untouched
    assert [record.id for record in sagas.list()] == ["bad", "foreign", "good", "list", "newer"]
    assert sagas.resolve("bad", "cancelled", reason="nothing was held").intent == '{"format":1}'
    assert [record.id for record in sagas.list(phase="parked")] == ["list"]


@pytest.mark.parametrize(("how", "phase", "consumed"), [("done", "done", 1), ("cancelled", "aborted", 0)])
def test_an_operator_ends_it(store: Store, how: Any, phase: str, consumed: int) -> None:
    hk, sagas, registered, saga = opened(store, effect=vanish)
    with pytest.raises(Gone):
        registered.run("a", INTENT)
    with pytest.raises(holdkit.errors.SagaBusy):
        sagas.resolve("a", how, reason="I looked")
    store.clock.advance(30)
    assert sagas.resolve("a", how, reason="I looked").phase == phase
    assert sagas.resolve("a", how, reason="again").phase == phase
    with pytest.raises(holdkit.InvalidRequest, match="already"):
        sagas.resolve("a", {"done": "cancelled", "cancelled": "done"}[how], reason="no")
    assert (hk.pool("p").held, hk.pool("p").consumed) == (0, consumed)
    assert sagas.recover() == holdkit.sagas.RecoveryReport()
    if how == "cancelled":  # a client that asks until it is settled is told so, and revives nothing
        with pytest.raises(holdkit.errors.SagaCancelled, match="I looked"):
            registered.run("a", INTENT)
    else:
        assert registered.run("a", INTENT).phase == "done"
    assert (sagas.get("a").resolved, registered.begin("a", INTENT).phase) == ("I looked", phase)
    assert (hk.pool("p").held, hk.pool("p").consumed) == (0, consumed)
    assert saga.calls.count("effect") == 1
    assert differences(hk) == ()


def test_a_hold_released_by_force_parks_its_saga_and_nothing_is_run(store: Store) -> None:
    hk, sagas, registered, saga = opened(store, effect=vanish)
    with pytest.raises(Gone):
        registered.run("a", INTENT)
    hold = sagas.get("a").hold
    with pytest.raises(holdkit.NotOwner):
        hk.release(hk.get(hold))  # nobody has its token
    hk.admin.release(hold, reason="admin_override")
    store.clock.advance(30)
    assert sagas.recover() == holdkit.sagas.RecoveryReport(parked=1)
    assert sagas.get("a").error.kind == "HoldLost"
    assert saga.calls.count("effect") == 1


FORCE: dict[str, Any] = {"reason": "admin_override"}


@pytest.mark.parametrize("quantity", [None, 1])
@pytest.mark.parametrize("dropped", [False, True])
def test_a_hold_confirmed_by_force_before_the_point_of_no_return_parks_its_saga(
    store: Store, quantity: int | None, dropped: bool
) -> None:
    """Another attempt would consume the units a second time; once they are returned, the saga can be cancelled."""
    hk, sagas, registered, saga = opened(store, validate=vanish, reserve=lambda *_: {"p": 2})
    with pytest.raises(Gone):
        registered.run("a", INTENT)
    hold = sagas.get("a").hold
    hk.admin.extend(hold, by=30, **FORCE)
    hk.admin.confirm(hold, quantity=quantity, keep_rest=quantity is not None, **FORCE)
    store.clock.advance(30 + dropped * 401 * 86_400)
    for _ in range(2 * dropped):
        hk.sweep()
    del saga.script["validate"]
    assert sagas.recover() == holdkit.sagas.RecoveryReport(parked=1)
    assert sagas.get("a").error.kind == "HoldLost"
    assert saga.calls == ["reserve", "validate"]
    assert hk.pool("p").consumed == (quantity or 2)
    if quantity is None and not dropped:
        with pytest.raises(holdkit.AlreadyConfirmed):
            sagas.resolve("a", "cancelled", reason="I looked")
        hk.admin.return_units(hold, **FORCE)
    assert sagas.resolve("a", "cancelled", reason="I looked").phase == "aborted"
    assert hk.pool("p").held == 0
    assert differences(hk) == ()


def test_ended_sagas_are_forgotten_after_the_retention(store: Store) -> None:
    hk, sagas, registered, saga = opened(store)
    registered.run("a", INTENT)
    store.clock.advance(30 * 86_400 - 1)
    assert sagas.recover().pruned == 0
    store.clock.advance(1)
    assert sagas.recover() == holdkit.sagas.RecoveryReport(pruned=1)
    assert sagas.get("a") is None
    assert all(hk.admin.records.list(kind) == [] for kind in ("~saga", "~saga.open", "~saga.ended", "~saga.parked"))
    assert registered.run("a", INTENT).phase == "done"  # a new life
    assert saga.calls.count("effect") == 2


def test_tenants_share_nothing(store: Store) -> None:
    hk, sagas, registered, _ = opened(store)
    registered.run("a", INTENT)
    theirs = hk.tenant("acme").sagas
    assert theirs.get("a") is None
    assert theirs.list() == []
    assert [record.id for record in sagas.list(phase="done")] == ["a"]


class Once(ScriptedSaga):
    """One failure is enough to park it."""

    max_attempts = 1


DAY = 86_400


def fail_once(registered: ScriptedSaga) -> None:
    """Its effect may have happened, and fails the first time it is run."""

    def fail(_intent: Any, _step: holdkit.sagas.SagaStep) -> str:
        if registered.calls.count("effect") == 1:
            raise ValueError("no answer")
        return "ran"

    registered.script["effect"] = fail


@pytest.mark.parametrize(("how", "phase"), [("done", "done"), ("cancelled", "aborted")])
def test_the_retention_of_a_resolved_saga_begins_with_its_end(store: Store, how: Any, phase: str) -> None:
    """Parked for 29 days, then resolved: two days later it is not forgotten, and its effect is not run again."""
    hk, sagas, _, _ = opened(store)
    once = Once()
    fail_once(once)
    registered = sagas.register(once)
    with pytest.raises(holdkit.errors.SagaParked):
        registered.run("a", INTENT)
    hk.admin.release(sagas.get("a").hold, reason="admin_override")
    store.clock.advance(29 * DAY)
    ended = sagas.resolve("a", how, reason="I looked")
    assert (ended.phase, moment(ended.since), moment(ended.begun_at)) == (phase, 29 * DAY * 1_000_000, 0)
    store.clock.advance(2 * DAY)
    assert sagas.recover() == holdkit.sagas.RecoveryReport()
    hk.sweep()
    assert sagas.get("a") == ended
    if how == "done":
        assert registered.run("a", INTENT).phase == "done"
    else:
        with pytest.raises(holdkit.errors.SagaCancelled):
            registered.run("a", INTENT)
    assert once.calls.count("effect") == 1
    store.clock.advance(28 * DAY - 0.000001)
    assert sagas.recover().pruned == 0
    store.clock.advance(0.000001)
    assert sagas.recover().pruned == 1
    assert sagas.get("a") is None
    assert differences(hk) == ()


def test_a_new_life_is_not_stopped_by_the_holds_of_the_last(store: Store) -> None:
    """The saga is forgotten, and what it confirmed is not: its hold has the id of the first attempt for a year to come."""
    hk, sagas, _, _ = opened(store)
    once = Once()
    registered = sagas.register(once)
    first = registered.run("a", INTENT)
    store.clock.advance(30 * DAY)
    assert sagas.recover().pruned == 1
    again = registered.run("a", INTENT)
    assert (again.phase, again.attempt, once.calls.count("effect")) == ("done", 2, 2)
    assert hk.get(first.hold).state == hk.get(again.hold).state == "confirmed"
    assert differences(hk) == ()


def test_a_phase_begins_with_the_write_that_begins_it(store: Store) -> None:
    """Every step takes a second here: `since` names the first write of a phase, neither the one before nor a later one."""

    def later(_intent: Any, _step: holdkit.sagas.SagaStep) -> str:
        store.clock.advance(1)
        return "p"

    _, sagas, registered, saga = opened(store, reserve=later, validate=later, effect=later)
    store.clock.advance(1)
    ended = registered.run("a", INTENT)
    assert (ended.phase, moment(ended.begun_at), moment(ended.since)) == ("done", 1_000_000, 4_000_000)
    assert sagas.get("a") == ended
    saga.script["validate"] = vanish
    with pytest.raises(Gone):
        registered.run("b", INTENT)
    seen = sagas.get("b")
    assert (seen.phase, seen.attempt, moment(seen.begun_at), moment(seen.since)) == (
        "reserving",
        1,
        4_000_000,
        4_000_000,
    )
    store.clock.advance(30)  # past its lease
    saga.script |= {"validate": later, "effect": vanish}
    with pytest.raises(Gone):
        registered.run("b", INTENT)
    seen = sagas.get("b")
    assert (seen.phase, seen.attempt, moment(seen.begun_at), moment(seen.since)) == (
        "finalizing",
        2,
        4_000_000,
        37_000_000,
    )
    store.clock.advance(299.999999)
    assert sagas.stuck("5m") == []
    store.clock.advance(0.000001)
    assert [(record.id, moment(record.since)) for record in sagas.stuck("5m")] == [("b", 37_000_000)]


def test_aborted_and_begun_anew_it_is_forgotten_after_its_last_end(store: Store) -> None:
    def no(_intent: Any, _step: holdkit.sagas.SagaStep) -> None:
        store.clock.advance(1)
        raise LookupError("closed")

    hk, sagas, registered, saga = opened(store, validate=no)
    with pytest.raises(LookupError):
        registered.run("a", INTENT)
    assert moment(sagas.get("a").since) == 1_000_000
    store.clock.advance(20 * DAY)
    del saga.script["validate"]
    registered.run("a", INTENT)
    assert [moment(row.at) for row in hk.admin.records.list("~saga.ended")] == [(20 * DAY + 1) * 1_000_000]
    store.clock.advance(29 * DAY)
    assert sagas.recover().pruned == 0
    store.clock.advance(DAY)
    assert sagas.recover().pruned == 1
    assert hk.admin.records.list("~saga.ended") == hk.admin.records.list("~saga") == []
