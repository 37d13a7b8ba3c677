"""One operation id for a whole `apply`: sync and async, retried, reused, lost on the way, and inside a caller's transaction."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

import holdkit
from holdkit import Hold, InvalidRequest, Leg, OperationConflict, OutcomeUnknown
from holdkit.commands import ConfirmHold, CreatePool, PlaceHold
from tests.support.watched_engine import WatchedEngine
from tests.unit.kernel.test_unknown_outcomes import lose_once


def places(*quantities: int) -> list[Any]:
    return [PlaceHold(legs=(Leg("p", quantity),), ttl=60) for quantity in quantities]


def answers(outcomes: list[holdkit.Outcome]) -> list[Any]:
    return [one.value if one.ok else one.refusal for one in outcomes]


def words(outcomes: list[holdkit.Outcome]) -> list[str]:
    return [one.reason or one.unwrap().state for one in outcomes]


def test_the_same_batch_is_replayed_with_its_tokens(hk: Any) -> None:
    first = hk.apply(places(3, 3, 9), op="k")
    again = hk.apply(iter(places(3, 3, 9)), op="k")
    assert words(first) == words(again) == ["held", "held", "insufficient_capacity"]
    assert [one.replayed for one in answers(first + again)] == [False] * 3 + [True] * 3
    assert [one.unwrap().token for one in first[:2]] == [one.unwrap().token for one in again[:2]]
    assert hk.pool("p").held == 6
    assert [entry.op for entry in hk.journal.list()][-2:] == ["k#0", "k#1"]


def test_another_batch_under_it_does_nothing(hk: Any) -> None:
    hk.apply(places(1), op="k")
    for other in (places(1, 1), places(2)):
        outcomes = hk.apply(other, op="k")
        assert all(isinstance(one.refusal, OperationConflict) for one in outcomes)
        assert outcomes[0].refusal.details["subject"] == "k"
    with pytest.raises(OperationConflict) as used:
        hk.apply(places(1), op="k", atomic=True)
    assert (used.value.subject, used.value.index) == ("k", None)
    with pytest.raises(OperationConflict):
        hk.hold("p", 1, ttl=60, op="k")
    assert hk.pool("p").held == 1


@pytest.mark.parametrize("written", [True, False])
def test_a_lost_answer_is_asked_for_again(hk: Any, engine: WatchedEngine, written: bool) -> None:
    lose_once(engine, written=written)
    assert words(hk.apply(places(3, 3, 9), op="k")) == ["held", "held", "insufficient_capacity"]
    assert hk.pool("p").held == 6


def test_without_a_key_it_stays_unknown(hk: Any, engine: WatchedEngine) -> None:
    lose_once(engine, written=True)
    with pytest.raises(OutcomeUnknown):
        hk.apply(places(3, 3))


@pytest.mark.parametrize(
    ("op", "code"), [("", "op_required"), (7, "op_not_text"), ("x" * 256, "op_too_long"), ("x" * 254, "op_too_long")]
)
def test_a_malformed_key_is_refused_before_anything(hk: Any, op: Any, code: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        hk.apply(places(1), op=op)
    assert (refused.value.field, refused.value.code) == ("op", code)
    assert hk.pool("p").held == 0


def test_no_command_may_carry_the_key_of_the_batch(hk: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        hk.apply([CreatePool(id="q", total=1), CreatePool(id="r", total=1, op="k")], op="k")
    assert (refused.value.field, refused.value.code) == ("op", "op_ambiguous")
    assert hk.apply([CreatePool(id="q", total=1, op="own")], op="k")[0].unwrap().id == "q"
    assert hk.create_pool("q", 1, op="own").replayed


def test_no_command_may_carry_the_place_of_another(hk: Any) -> None:
    """The other would be taken for its retry: answered as done, and never done."""
    first, second = places(1, 1)
    with pytest.raises(InvalidRequest) as refused:
        hk.apply([structs.replace(first, op="k#1"), second], op="k")
    assert (refused.value.field, refused.value.code) == ("op", "op_ambiguous")
    assert hk.pool("p").held == 0
    with pytest.raises(InvalidRequest, match="op"):
        hk.apply([structs.replace(first, op=7)], op="k")
    hk.apply([structs.replace(first, op="k#0"), structs.replace(second, op="k:1")], op="k")
    assert hk.pool("p").held == 2


def test_of_nothing_nothing_is_remembered(hk: Any) -> None:
    assert hk.apply([], op="k") == []
    assert words(hk.apply(places(1), op="k")) == ["held"]


def test_in_a_callers_transaction_it_is_rolled_back_with_it(tmp_path: Path) -> None:
    path = tmp_path / "holds.db"
    with holdkit.connect(f"sqlite:///{path}") as hk:
        hk.create_pool("p", 10)
        mine = sqlite3.connect(path, isolation_level=None)
        for end, held in (("rollback", 0), ("commit", 2)):
            mine.execute("begin immediate")
            assert words(hk.apply(places(2), op="k", tx=mine)) == ["held"]
            mine.execute(end)
            assert hk.pool("p").held == held
        mine.close()
        (outcome,) = hk.apply(places(2), op="k")
        again = outcome.unwrap()
        assert isinstance(again, Hold)
        assert again.replayed
        assert words(hk.apply([ConfirmHold(id=again.id, token=again.token)], op="k")) == ["operation_conflict"]
