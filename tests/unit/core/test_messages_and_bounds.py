"""What a caller reads when a field is for others, the last values that are taken, and values that outlive a release."""

from __future__ import annotations

import pytest
from msgspec import structs

from holdkit.core.audit_rows import row_name
from holdkit.core.bounds import Limits
from holdkit.core.codec import group_fingerprint
from holdkit.core.commands import CreatePool, PlaceHold
from holdkit.core.face_legs import FaceLeg
from holdkit.core.lanes import in_lane
from holdkit.core.model import Leg
from holdkit.core.validation import check
from holdkit.errors import InvalidRequest
from tests.unit.core.world import World, confirm, done, place

TTL = 60_000_000
RESERVED = [
    (FaceLeg("p", total=5), "total_reserved", "total: is for resources: subclass holdkit.Resource, or use resize_pool"),
    (FaceLeg("p", label="Stalls"), "label_reserved", "label: only the pools behind faces have labels"),
    (FaceLeg("p", opens=1, closes=2), "closes_reserved", "closes: only the pools behind faces have windows"),
]


def placing(*legs: Leg) -> PlaceHold:
    return PlaceHold(legs=legs, ttl_slots=TTL)


@pytest.mark.parametrize(("leg", "code", "words"), RESERVED, ids=[code for _, code, _ in RESERVED])
def test_what_is_for_faces_says_so(leg: Leg, code: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(placing(leg), Limits())
    assert (refused.value.code, str(refused.value)) == (code, f"holdkit: {words}")


def test_pools_on_demand_are_for_faces_and_the_way_for_others_is_told() -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(CreatePool(id="p", total=1, on_demand=True), Limits())
    assert str(refused.value) == "holdkit: on_demand: is for faces: give a leg create_with_total instead"


@pytest.mark.parametrize("leg", [FaceLeg("p", opens=1), FaceLeg("p", closes=2)], ids=["opens", "closes"])
def test_half_a_window_is_none(leg: Leg) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check(placing(leg), Limits(), faces=True)
    assert refused.value.code == "window_incomplete"
    assert str(refused.value) == "holdkit: closes: a window has both opens and closes"


def test_a_capacity_of_nothing_is_an_answer() -> None:
    check(placing(FaceLeg("p", total=0, in_use=0)), Limits(), faces=True)
    with pytest.raises(InvalidRequest, match="total"):
        check(placing(FaceLeg("p", total=-1)), Limits(), faces=True)


def test_a_pool_named_twice_is_called_as_its_face_calls_it() -> None:
    with pytest.raises(InvalidRequest, match="'Stalls' is named twice"):
        check(placing(FaceLeg("~p", label="Stalls"), FaceLeg("~p", label="Stalls")), Limits(), faces=True)
    with pytest.raises(InvalidRequest, match="pool 'p' is named twice"):
        check(placing(Leg("p"), Leg("p")), Limits())


def test_the_fingerprint_of_a_group_is_the_same_in_every_release() -> None:
    """It is stored: a retry may come from another one."""
    commands = [
        CreatePool(id="p", total=1, op="a", fingerprint="f1"),
        CreatePool(id="q", total=1, op="b", fingerprint="f2"),
    ]
    assert group_fingerprint(commands, True) == "6a03efb4f14f55c4b9e4c71bdb34aa16"
    assert group_fingerprint(commands, False) == "4f050679ca32a6bc872be1c4c9aec5da"


@pytest.mark.parametrize(
    ("lane", "lanes", "moved"),
    [
        (3, 8, "0123456789abcdef0123456789ab977b"),
        (5, 16, "0123456789abcdef0123456789ab2ef5"),
        (0, 2, "0123456789abcdef0123456789ab25de"),
    ],
)
def test_an_id_keeps_what_its_lane_leaves_open(lane: int, lanes: int, moved: str) -> None:
    assert in_lane("0123456789abcdef0123456789ab12ef", lane, lanes) == moved


def test_a_confirm_of_nothing_releases_in_its_own_tenant_and_for_a_face_that_vouches() -> None:
    world = World()
    world.pool("p", 5, tenant="acme")
    done(world.do(place("h", {"p": 2}, ttl=60, tenant="acme")))
    command = structs.replace(confirm("h", {"p": 0}, tenant="acme"), token=None, trusted=True)
    answered = done(world.do(command))
    assert answered.hold is not None
    assert (answered.hold.tenant, str(answered.hold.state)) == ("acme", "released")


@pytest.mark.parametrize(
    ("key", "name"),
    [
        (("", "p"), "p"),
        (("", "a/p"), "/a/p"),
        (("acme", "p"), "acme/p"),
        (("a/b%", "c/d%"), "a%2Fb%25/c/d%"),
        (("", "saga", "x"), "saga/x"),
        (("", "sa/ga", "x/y"), "/sa%2Fga/x/y"),
    ],
)
def test_no_two_rows_are_called_the_same(key: tuple[str, ...], name: str) -> None:
    assert row_name(key) == name
