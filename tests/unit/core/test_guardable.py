"""Which commands a guard may decide, one condition at a time; and what it decides."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdkit.core.bounds import Limits
from holdkit.core.codec import hash_owner
from holdkit.core.commands import (
    AnyCommand,
    ConfirmHold,
    Consume,
    CreatePool,
    ExtendHold,
    Group,
    Guard,
    JoinLine,
    PlaceHold,
    ReleaseHold,
)
from holdkit.core.decide import decide_groups
from holdkit.core.face_legs import FaceLeg
from holdkit.core.guards import ended, granted, guardable
from holdkit.core.model import DAY, Leg, Pool
from holdkit.core.outcomes import Done
from holdkit.core.view import Loaded, View

LIMITS = Limits()
ID = "0" * 31 + "1"
PLACE = PlaceHold(legs=(Leg("p", 2),), id=ID, token="me", ttl_slots=60)
LEG = PLACE.legs[0]
CONFIRM = ConfirmHold(id=ID, token="me")
RELEASE = ReleaseHold(id=ID, token="me")


@pytest.mark.parametrize(
    "command",
    [PLACE, *(structs.replace(PLACE, ttl_slots=ttl) for ttl in (None, 1, LIMITS.max_lifetime)), CONFIRM, RELEASE],
)
def test_the_commonest(command: AnyCommand) -> None:
    assert guardable(Group((command,)), LIMITS) is command
    assert guardable(Group((command,), checked=LIMITS.version), LIMITS) is command


@pytest.mark.parametrize(
    "changed",
    [
        {"legs": (LEG, Leg("q", 1))},
        {"legs": (Leg("~claims/p", 2),)},
        {"legs": (Leg("p//child", 2),)},
        {"legs": (structs.replace(LEG, create_with_total=3),)},
        {"legs": (FaceLeg("p", 2),)},
        {"legs": (FaceLeg("p", 2, total=3),)},
        {"legs": (FaceLeg("p", 2, label="x"),)},
        {"legs": (FaceLeg("p", 2, opens=1),)},
        {"legs": (FaceLeg("p", 2, closes=1),)},
        {"legs": (FaceLeg("p", 2, in_use=1),)},
        {"account": "a"},
        {"force": True},
        {"wait_slots": 60, "offer_slots": 10},
        {"ttl_slots": None, "deadline": 100},
        {"ttl_slots": LIMITS.max_lifetime + 1},
        {"ttl_slots": 0},
    ],
    ids=str,
)
def test_a_place_with_anything_else(changed: dict[str, Any]) -> None:
    assert guardable(Group((structs.replace(PLACE, **changed),)), LIMITS) is None


@pytest.mark.parametrize(
    "command",
    [
        structs.replace(CONFIRM, quantity=1),
        structs.replace(CONFIRM, force=True),
        structs.replace(CONFIRM, trusted=True),
        structs.replace(CONFIRM, token=None),
        structs.replace(RELEASE, quantity=1),
        ExtendHold(id=ID, token="me", by_slots=1),
        Consume(legs=(LEG,), id=ID, token="me"),
        JoinLine(legs=(LEG,), id=ID, token="me", ttl_slots=60, offer_slots=10),
        CreatePool(id="p", total=1),
    ],
)
def test_all_other_commands(command: AnyCommand) -> None:
    assert guardable(Group((command,)), LIMITS) is None


def test_all_other_groups() -> None:
    for group in (
        Group((PLACE, CONFIRM)),
        Group((PLACE,), atomic=True),
        Group((PLACE,), guard=Guard("", "op", "")),
        Group((PLACE,), checked=LIMITS.version + 1),
    ):
        assert guardable(group, LIMITS) is None


def view_of(pool: Pool, slot: int, **holds: Any) -> View:
    return View(Loaded(slot, 1, {pool.key: pool}, holds.get("holds", {}), {}, {}, lambda _: [], slot, LIMITS))


@pytest.mark.parametrize("ttl", [60, DAY, None])
def test_the_outcomes_are_those_of_the_ladders(ttl: int | None) -> None:
    more: dict[str, Any] = {
        "actor": "user:1",
        "correlation_id": "c",
        "client_id": "k",
        "trace": "t",
        "reason": "r",
        "op": "o",
        "fingerprint": "f" * 32,
    }
    place = structs.replace(PLACE, ttl_slots=ttl, entity="e", metadata={"b": 1, "a": 2}, **more)
    pool = Pool("", "p", 10, 3, 1, 7, 90, 4)
    view = view_of(pool, 100)
    ((placed,),) = decide_groups(view, [Group((place,))])
    assert placed == granted(place, hash_owner("me"), '{"a":2,"b":1}', 100, 8)
    assert isinstance(placed, Done)
    assert placed.hold is not None
    after = view.pools.get(pool.key)
    assert after is not None
    for command in (
        structs.replace(CONFIRM, entity="x", **{**more, "op": "o2"}),
        structs.replace(CONFIRM, actor="user:2"),
        structs.replace(RELEASE, **{**more, "op": "o2"}),
        RELEASE,
    ):
        ending = view_of(after, 110, holds={placed.hold.key: placed.hold})
        ((found,),) = decide_groups(ending, [Group((command,))])
        assert found == ended(command, placed.hold, 110)
