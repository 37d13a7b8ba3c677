"""A batch answers each command with an `Outcome`; an atomic one raises what stopped it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

import holdkit
from holdkit import AlreadyConfirmed, Hold, InvalidRequest, Leg, Pool
from holdkit.admin import Record
from holdkit.commands import ConfirmHold, CreatePool, PlaceHold, PutRecord, Sweep
from holdkit.reports import SweepReport


def test_apply_gives_values(hk: Any) -> None:
    outcomes = hk.apply(
        [
            CreatePool(id="q", total=1),
            PlaceHold(legs=(Leg("q"),), ttl="5m", id="1" * 32, token="o"),
            ConfirmHold(id=str(UUID("1" * 32)), token="o"),
            ConfirmHold(id="1" * 32, token="o"),
            PlaceHold(legs=(Leg("q"),), deadline=datetime(2000, 1, 1, tzinfo=UTC)),
            PutRecord(kind="k", id="x", body="1"),
            PutRecord(kind="k", id="x", body=None),
            Sweep(),
            ConfirmHold(id="1" * 32, token="o", quantity={"nope": 1}),
        ]
    )
    kinds = [type(outcome.refusal or outcome.value) for outcome in outcomes]
    assert kinds[:4] == [Pool, Hold, Hold, AlreadyConfirmed]
    assert kinds[5:8] == [Record, type(None), SweepReport]
    assert [outcome.ok for outcome in outcomes] == [True, True, True, False, False, True, True, True, False]
    assert [outcomes[n].reason for n in (0, 3, 4, 8)] == [
        None,
        "already_confirmed",
        "lifetime_exceeded",
        "already_confirmed",
    ]
    assert (repr(outcomes[0]), repr(outcomes[3])) == ("<Outcome ok>", "<Outcome already_confirmed>")
    assert outcomes[1].unwrap().token == "o"
    assert outcomes[6].unwrap() is None
    for refused in (outcomes[3], outcomes[4]):
        assert refused.value is None
        with pytest.raises(type(refused.refusal)):
            refused.unwrap()
    assert hk.apply([]) == []
    assert hk.apply(iter([CreatePool(id="r", total=1)]))[0].unwrap().id == "r"


def test_atomic_is_all_or_none(hk: Any) -> None:
    with pytest.raises(holdkit.errors.PoolExists) as refused:
        hk.apply([CreatePool(id="a", total=1), CreatePool(id="p", total=1), CreatePool(id="b", total=1)], atomic=True)
    assert refused.value.index == 1
    assert [pool.id for pool in hk.pools()] == ["p"]
    assert all(
        outcome.ok for outcome in hk.apply([CreatePool(id="a", total=1), CreatePool(id="b", total=1)], atomic=True)
    )
    hold = hk.hold("p", 1, ttl=60)
    unfit = ConfirmHold(id=hold.id, token=hold.token, quantity={"nope": 1})
    with pytest.raises(InvalidRequest) as invalid:
        hk.apply([CreatePool(id="c", total=1), unfit], atomic=True)
    assert (invalid.value.code, invalid.value.index) == ("leg_unknown", 1)


@pytest.mark.parametrize("atomic", [False, True])
def test_a_malformed_command_is_named_by_its_index(hk: Any, atomic: bool) -> None:
    malformed: list[Any] = [PlaceHold(legs=(Leg("p", 0),), ttl=60), PlaceHold(legs=(Leg("p"),), ttl="soon"), "hold p"]
    for wrong in malformed:
        with pytest.raises(InvalidRequest) as invalid:
            hk.apply([CreatePool(id="a", total=1), CreatePool(id="b", total=1), wrong], atomic=atomic)
        assert invalid.value.index == 2
    assert [pool.id for pool in hk.pools()] == ["p"]


def test_a_command_that_does_not_fit_what_it_names_has_an_outcome_too(hk: Any) -> None:
    hold = hk.hold("p", 1, ttl=60)
    (outcome,) = hk.apply([ConfirmHold(id=hold.id, token=hold.token, quantity={"nope": 1})])
    assert (outcome.ok, outcome.reason, repr(outcome)) == (False, "invalid_request", "<Outcome invalid_request>")
    with pytest.raises(InvalidRequest) as refused:
        outcome.unwrap()
    assert (refused.value.code, refused.value.index) == ("leg_unknown", None)
