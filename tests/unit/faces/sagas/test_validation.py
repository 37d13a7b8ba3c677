"""Invalid sagas and arguments are refused with the field's name, before anything is written."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from typing import Any

import pytest

import holdkit
from holdkit.engines.memory import MemoryEngine
from holdkit.faces._sync.sagas import Sagas
from holdkit.faces.saga_records import hold_id_of
from holdkit.kernel._sync.executor import Executor
from tests.support.threads import PATIENCE
from tests.unit.faces.sagas.faulty_engine import FaultPoints, FaultyEngine
from tests.unit.faces.sagas.scripted_saga import AsyncScriptedSaga, ScriptedSaga


@pytest.fixture
def hk() -> Iterator[holdkit.Kernel]:
    with holdkit.connect("memory://") as kernel:
        kernel.create_pool("p", 5)
        yield kernel


def named(**fields: Any) -> type[ScriptedSaga]:
    return type("Made", (ScriptedSaga,), fields)


BAD: list[tuple[Callable[[Sagas], Any], str, str]] = [
    (lambda sagas: sagas.register(object()), "saga", "saga_malformed"),
    (lambda sagas: sagas.register(holdkit.Saga), "saga", "saga_malformed"),
    (lambda sagas: sagas.register(AsyncScriptedSaga), "saga", "saga_async"),
    (lambda sagas: sagas.register(named(effect_in=lambda *_: None)), "saga", "saga_malformed"),
    (lambda sagas: sagas.register(named(name="")), "name", "name_required"),
    (lambda sagas: sagas.register(named(name="x" * 101)), "name", "name_too_long"),
    (lambda sagas: sagas.register(named(ttl=0)), "ttl", "ttl_too_short"),
    (lambda sagas: sagas.register(named(lease="soon")), "lease", "lease_malformed"),
    (lambda sagas: sagas.register(named(lease="2d")), "lease", "lease_out_of_range"),
    (lambda sagas: sagas.register(named(max_attempts=0)), "max_attempts", "max_attempts_out_of_range"),
    (lambda sagas: sagas.register(ScriptedSaga).run("", {}), "id", "id_required"),
    (lambda sagas: sagas.register(ScriptedSaga).run("x" * 201, {}), "id", "id_too_long"),
    (lambda sagas: sagas.register(ScriptedSaga).run("a\x00", {}), "id", "id_unprintable"),
    (lambda sagas: sagas.register(ScriptedSaga).run("a", {"x": float("nan")}), "intent", "intent_not_finite"),
    (lambda sagas: sagas.register(ScriptedSaga).run("a", object()), "intent", "intent_not_json"),
    (lambda sagas: sagas.register(ScriptedSaga).run("a", "x" * 20_000), "intent", "intent_too_large"),
    (lambda sagas: sagas.register(ScriptedSaga).begin("a", {}, tx=object()), "tx", "tx_unsupported"),
    (lambda sagas: sagas.recover(limit=0), "limit", "limit_out_of_range"),
    (lambda sagas: sagas.list(phase="maybe"), "phase", "phase_unknown"),
    (lambda sagas: sagas.list(limit=1_001), "limit", "limit_out_of_range"),
    (lambda sagas: sagas.stuck("soon"), "older_than", "older_than_malformed"),
    (lambda sagas: sagas.get(""), "id", "id_required"),
    (lambda sagas: sagas.resolve("a", "done", reason="x"), "id", "saga_not_found"),
    (lambda sagas: sagas.resolve("a", "maybe", reason="x"), "how", "how_unknown"),  # type: ignore[arg-type]
    (lambda sagas: sagas.resolve("a", "done", reason=""), "reason", "reason_required"),
]


@pytest.mark.parametrize(("call", "field", "code"), BAD)
def test_refused_before_anything_is_written(
    hk: holdkit.Kernel, call: Callable[[Sagas], Any], field: str, code: str
) -> None:
    with pytest.raises(holdkit.InvalidRequest) as caught:
        call(hk.sagas)
    assert (caught.value.field, caught.value.code) == (field, code)
    assert hk.admin.records.list("~saga") == []


@pytest.mark.parametrize("what", [{"nowhere": 1}, {"p": 0}, {"p": 6}, 5, None, {"p": 10**20}])
def test_what_cannot_be_held_aborts(hk: holdkit.Kernel, what: Any) -> None:
    registered = hk.sagas.register(ScriptedSaga(reserve=lambda _intent, _step: what))
    with pytest.raises((holdkit.Refused, holdkit.InvalidRequest)):
        registered.run("a", {"pool": "p"})
    assert [record.phase for record in hk.sagas.list()] == ["aborted"]
    assert hk.admin.verify().ok


@pytest.mark.parametrize("what", ["~item/a", {"~item/a": 1}, [holdkit.items("b"), "~item/a"], [holdkit.Leg("~r/p")]])
def test_a_saga_cannot_reach_behind_a_face(hk: holdkit.Kernel, what: Any) -> None:
    hk.items.add(["a", "b"])
    registered = hk.sagas.register(ScriptedSaga(reserve=lambda _intent, _step: what))
    with pytest.raises(holdkit.InvalidRequest) as caught:
        registered.run("x", {"pool": "p"})
    assert caught.value.code == "pool_reserved"
    assert [item.state for item in hk.items.get(["a", "b"])] == ["available", "available"]


def test_a_saga_takes_nights_together_with_other_things(hk: holdkit.Kernel) -> None:
    inn = hk.calendar("inn", {"double": 1})
    nights = inn.legs("double", date(2099, 7, 1), date(2099, 7, 3))
    hk.create_pool("parking", 1)
    what: list[Any] = [nights, {"parking": 1}, holdkit.claim("voucher", "X7")]
    registered = hk.sagas.register(ScriptedSaga(reserve=lambda _intent, _step: what))
    registered.run("x", {"pool": "p"})
    assert inn.available("double", date(2099, 7, 1), date(2099, 7, 3)).nights[1].consumed == 1
    assert (hk.pool("parking").consumed, hk.claims.is_taken("voucher", "X7")) == (1, True)


def test_a_saga_speaks_of_things_by_their_names(hk: holdkit.Kernel) -> None:
    registered = hk.sagas.register(
        ScriptedSaga(reserve=lambda _intent, _step: [holdkit.items("seat"), holdkit.claim("mail", "x")])
    )
    with pytest.raises(holdkit.errors.PoolNotFound, match="'seat'") as missing:
        registered.run("a", {"pool": "p"})
    assert "~" not in str(missing.value)
    hk.items.add(["seat"])
    assert registered.run("a", {"pool": "p"}).phase == "done"
    assert (hk.items.get(["seat"])[0].state, hk.claims.is_taken("mail", "x")) == ("confirmed", True)


@pytest.mark.parametrize(("first", "second"), [(1, True), (0, False), (1, 1.0), ({"n": 1}, {"n": True})])
def test_intents_that_only_look_alike_are_not_the_same(hk: holdkit.Kernel, first: Any, second: Any) -> None:
    registered = hk.sagas.register(ScriptedSaga)
    registered.begin("a", first)
    assert registered.begin("a", first).intent == first
    with pytest.raises(holdkit.OperationConflict):
        registered.begin("a", second)


def test_records_of_sagas_are_nobody_elses_to_write(hk: holdkit.Kernel) -> None:
    with pytest.raises(holdkit.InvalidRequest, match="reserved"):
        hk.admin.records.put("~saga", "a", "{}")


def give(result: Any, _intent: Any, _step: holdkit.sagas.SagaStep) -> Any:
    return result


def test_a_result_that_json_cannot_carry_is_dropped_and_the_saga_is_done(hk: holdkit.Kernel) -> None:
    for number, result in enumerate([object(), "x" * 100_000, "\ud800"]):
        registered = hk.sagas.register(ScriptedSaga(effect=partial(give, result)))
        assert (registered.run(f"a{number}", {"pool": "p"}).result, hk.pool("p").consumed) == (None, number + 1)


def test_a_registered_name_is_replaced(hk: holdkit.Kernel) -> None:
    hk.sagas.register(ScriptedSaga(effect=lambda _intent, _step: "old")).begin("a", {"pool": "p"})
    hk.sagas.register(ScriptedSaga(effect=lambda _intent, _step: "new"))
    hk.sagas.recover()
    record = hk.sagas.get("a")
    assert record is not None
    assert record.result == "new"


def test_many_recoverers_at_once_run_each_effect_once() -> None:
    ran: list[str] = []
    with holdkit.connect("memory://") as hk:
        hk.create_pool("p", 100)
        registered = hk.sagas.register(ScriptedSaga(effect=lambda _intent, step: ran.append(step.id)))
        for number in range(40):
            registered.begin(f"s{number}", {"pool": "p"})
        threads = [threading.Thread(target=hk.sagas.recover) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ran) == sorted(f"s{number}" for number in range(40))
        assert hk.pool("p").consumed == 40
        assert hk.admin.verify().ok


def renewed_twice(hk: holdkit.Kernel, then: Callable[[], Any]) -> Callable[[Any, holdkit.sagas.SagaStep], Any]:
    """A step that waits until it has seen its lease renewed twice, or that PATIENCE is over."""
    pause = threading.Event()

    def wait(_intent: Any, step: holdkit.sagas.SagaStep) -> Any:
        first = hk.admin.records.get("~saga", step.id)
        assert first is not None
        over = time.monotonic() + PATIENCE
        while (now := hk.admin.records.get("~saga", step.id)) is not None and now.version < first.version + 2:
            assert time.monotonic() < over, "its lease was not renewed"
            pause.wait(0.001)
        return then()

    return wait


@pytest.mark.parametrize("method", ["reserve", "validate", "effect", "undo"])
def test_the_lease_is_renewed_while_the_application_works(method: str) -> None:
    def no(_intent: Any, _step: holdkit.sagas.SagaStep) -> None:
        raise LookupError("no")

    with holdkit.connect("memory://") as hk:
        hk.create_pool("p", 1)
        saga: dict[str, Callable[[Any, holdkit.sagas.SagaStep], Any]] = {"validate": no} if method == "undo" else {}
        saga[method] = renewed_twice(hk, lambda: "p")
        registered = hk.sagas.register(type("Short", (ScriptedSaga,), {"lease": 0.03})(**saga))
        if method == "undo":
            with pytest.raises(LookupError):
                registered.run("a", {"pool": "p"})
        else:
            registered.run("a", {"pool": "p"})
        record = hk.sagas.get("a")
        assert record is not None
        assert (record.phase, record.epoch) == ("aborted" if method == "undo" else "done", 1)
        assert hk.admin.verify().ok


def test_a_hold_id_that_somebody_has_taken_is_passed_over(hk: holdkit.Kernel) -> None:
    for attempt in (1, 2):
        hk.hold("p", 1, ttl=60, id=hold_id_of("", "a", attempt))
    record = hk.sagas.register(ScriptedSaga()).run("a", {"pool": "p"})
    assert (record.phase, record.attempt, hk.pool("p").consumed) == ("done", 3, 1)


def test_an_error_of_ours_is_quoted_without_its_prefix() -> None:
    def fail(_intent: Any, _step: holdkit.sagas.SagaStep) -> None:
        raise holdkit.errors.EngineError("the archive is full")

    with holdkit.connect("memory://") as hk:
        hk.create_pool("p", 1)
        with pytest.raises(holdkit.OutcomeUnknown, match="continue it: the archive is full"):
            hk.sagas.register(ScriptedSaga(effect=fail)).run("a", {"pool": "p"})


def test_a_renewal_whose_fate_was_not_known_costs_nothing() -> None:
    """The lease was renewed and nobody said so: the driver finds out that it was itself."""
    engine = MemoryEngine()
    lost = threading.Event()

    class Silent(FaultyEngine):
        def apply(self, groups: Any, **options: Any) -> Any:
            applied = self.inner.apply(groups, **options)
            if self.on and not lost.is_set():
                lost.set()
                raise holdkit.OutcomeUnknown("the reply was lost")
            return applied

    silent = Silent(engine, FaultPoints())
    hk = holdkit.Kernel(Executor(silent))
    hk.create_pool("p", 1)

    def wait(_intent: Any, step: holdkit.sagas.SagaStep) -> None:
        silent.on = True
        assert lost.wait(PATIENCE)
        seen = hk.admin.records.get("~saga", step.id)
        assert seen is not None
        pause = threading.Event()
        while (now := hk.admin.records.get("~saga", step.id)) is not None and now.version == seen.version:
            pause.wait(0.001)

    registered = hk.sagas.register(type("Short", (ScriptedSaga,), {"lease": 0.03})(effect=wait))
    assert registered.run("a", {"pool": "p"}).phase == "done"
    hk.close()
    engine.close()


def test_holds_that_are_over_before_they_are_seen_end_in_a_refusal_that_says_so() -> None:
    minutes = iter(range(1_000))
    with holdkit.connect("memory://", clock=lambda: next(minutes) * 60_000_000) as hk:  # each look takes a ttl
        hk.create_pool("p", 5)
        registered = hk.sagas.register(ScriptedSaga())
        with pytest.raises(holdkit.HoldExpired, match="before it could be read"):
            registered.run("a", {"pool": "p"})
        found = hk.sagas.get("a")
        assert found is not None
        assert found.error is not None
        assert (found.phase, found.attempt, found.error.kind) == ("aborted", 3, "HoldExpired")
