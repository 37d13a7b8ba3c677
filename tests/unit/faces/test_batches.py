"""Faces' legs in `apply`: keys, items and budgets have their results as values, as plain commands do."""

from __future__ import annotations

from typing import Any

import pytest

import holdkit
from holdkit import Allowance, Leg
from holdkit.commands import ConfirmHold, Consume, PlaceHold, ReleaseHold
from tests.support.kernels import Store, differences


@pytest.fixture
def hk(store: Store) -> Any:
    store.hk.create_pool("show:42", total=3)
    store.hk.items.add(["seat:A1", "seat:A2", "seat:A3"])
    return store.hk


def budget(hk: Any) -> Any:
    """So many tokens a day: the method `legs` of its budget."""
    return hk.budget("llm", tokens=Allowance(10, per="day")).legs


def everything(hk: Any) -> Any:
    return (Leg("show:42", 2), holdkit.claim("email", "a@b.c"), *holdkit.items("seat:A2", "seat:A1"))


def test_a_batch_takes_what_faces_give(hk: Any) -> None:
    tokens = budget(hk)
    outcomes = hk.apply([
        PlaceHold(legs=everything(hk), ttl=60, token="me"),
        PlaceHold(legs=holdkit.items("seat:A3"), ttl=60),
        Consume(legs=(Leg("show:42"), *tokens("team-a", 4))),
    ])  # fmt: skip
    held, alone, spent = [outcome.unwrap() for outcome in outcomes]
    assert [len(one.legs) for one in (held, alone, spent)] == [4, 1, 2]
    claim = hk.claims.get("email", "a@b.c")
    assert (claim.state, claim.hold, claim.combined) == ("held", held.id, True)
    assert [item.hold for item in hk.items.get(["seat:A1", "seat:A3"])] == [held.id, alone.id]
    ends = hk.apply([
        ConfirmHold(id=held.id, token="me", entity="order:9"), ReleaseHold(id=alone.id, token=alone.token)
    ])  # fmt: skip
    done, gone = [outcome.unwrap() for outcome in ends]
    assert (done.state, gone.state, hk.claims.list(entity="order:9")[0].key) == ("confirmed", "released", "email:a@b.c")
    listed: Any = [Leg("show:42"), holdkit.items("seat:A3")]  # as `hold` takes them
    assert hk.apply([PlaceHold(legs=listed, ttl=60)])[0].refusal.subject == "show:42", "nothing was left of it"
    assert differences(hk) == ()


def test_a_refusal_is_a_value_in_the_callers_words(hk: Any) -> None:
    mine = hk.claims.hold("email", "a@b.c", ttl=60)
    hk.confirm(hk.items.hold(["seat:A1"], ttl=None))
    email = holdkit.claim("email", "a@b.c")
    outcomes = hk.apply([
        PlaceHold(legs=(email,), ttl=60),
        PlaceHold(legs=(email, *holdkit.items("seat:A1", "seat:A2")), ttl=60),
        PlaceHold(legs=holdkit.items("seat:Z9"), ttl=60),
        PlaceHold(legs=(holdkit.claim("email", "free"),), ttl=60),
    ])  # fmt: skip
    taken, spent, missing = [outcome.refusal for outcome in outcomes[:3]]
    free = outcomes[3].unwrap()
    assert isinstance(taken, holdkit.InsufficientCapacity)
    (short,) = taken.shortfalls
    assert (taken.subject, short.label, short.holder, short.confirmed) == (
        "email:a@b.c",
        "email:a@b.c",
        mine.id,
        False,
    )
    assert [(short.label, short.confirmed) for short in spent.shortfalls] == [("email:a@b.c", False), ("seat:A1", True)]
    assert isinstance(missing, holdkit.errors.PoolNotFound)
    assert (missing.subject, "add it first" in str(missing)) == ("seat:Z9", True)
    assert free.state == "held"
    assert not any("~" in str(one) for one in (taken, spent, missing))
    with pytest.raises(holdkit.InsufficientCapacity) as stopped:
        hk.apply([PlaceHold(legs=holdkit.items("seat:A2"), ttl=60), Consume(legs=(email,))], atomic=True)
    assert (stopped.value.index, stopped.value.subject) == (1, "email:a@b.c")
    assert [item.state for item in hk.items.get(["seat:A2"])] == ["available"]


def test_a_batch_of_faces_is_retried_like_any_other(hk: Any, store: Store) -> None:
    """Of a budget the operation stands for what was asked, not for the window that ran then."""
    tokens = budget(hk)

    def ask(op: str, amount: int = 4) -> Any:
        commands = [PlaceHold(legs=everything(hk), ttl=60), Consume(legs=tokens("team-a", amount), op=f"{op} spent")]
        return [one.value if one.ok else one.refusal for one in hk.apply(commands, op=op)]

    store.clock.advance(86_300)  # shortly before the day is over
    first = ask("k")
    store.clock.advance(200)
    again = ask("k")
    assert ([one.id for one in again], [one.replayed for one in again]) == ([one.id for one in first], [True, True])
    assert again[0].token == first[0].token
    assert [one.reason for one in ask("k", 5)] == ["operation_conflict"] * 2
    assert not ask("l")[1].replayed
    store.clock.advance(86_300)
    one = hk.hold([*tokens("team-b", 3), "show:42"], ttl=60, op="h")
    store.clock.advance(200)
    assert hk.hold(["show:42", tokens("team-b", 3)], ttl=60, op="h").id == one.id
    assert differences(hk) == ()


def test_a_budget_that_is_spent_says_so(hk: Any, store: Store) -> None:
    tokens = budget(hk)
    late = tokens("team-a", 1)
    outcomes = hk.apply([Consume(legs=tokens("team-a", 8)), Consume(legs=tokens("team-a", 3))])
    spent, short = outcomes[0].unwrap(), outcomes[1].refusal
    assert (spent.state, short.reason, short.requested, short.available) == ("confirmed", "insufficient_capacity", 3, 2)
    store.clock.advance(86_400)
    (closed,) = hk.apply([Consume(legs=late, op="late")])
    assert closed.reason == "window_closed"
    assert hk.apply([Consume(legs=tokens("team-a", 1), op="late")])[0].unwrap().state == "confirmed"


def test_a_leg_of_ones_own_cannot_reach_behind_a_face_in_a_batch(hk: Any) -> None:
    behind = Leg("~claim/res_" + "0" * 32, 1, 1)
    key = holdkit.claim("email", "x")
    wrong: list[tuple[Any, str]] = [
        (PlaceHold(legs=(behind,), ttl=60), "pool_reserved"),
        (Consume(legs=(behind, key)), "pool_reserved"),
        (PlaceHold(legs=(key,)), "ttl_required"),
    ]
    for command, code in wrong:
        with pytest.raises(holdkit.InvalidRequest) as refused:
            hk.apply([command])
        assert refused.value.code == code
    with pytest.raises(holdkit.InvalidRequest):
        holdkit.items()
    with pytest.raises(holdkit.InvalidRequest):
        holdkit.claim("e:mail", "x")
    assert not hk.claims.is_taken("email", "x")
