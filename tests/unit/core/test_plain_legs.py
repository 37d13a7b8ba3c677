"""The usual leg is checked by a shorter way, which must not let through what the long way refuses."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import CreatePool, PlaceHold
from holdkit.core.face_legs import FaceLeg
from holdkit.core.model import MAX_QUANTITY, Leg
from holdkit.core.validation import check
from holdkit.core.values import plain_id, pool_id
from holdkit.errors import InvalidRequest


class Text(str):
    """Text of another kind, equal to the plain one."""

    __slots__ = ()


@pytest.mark.parametrize(
    "name", ["", " ", "a", "a b", "é", "a" * 512, "a" * 513, "~a", "a~", "a/b", "a//b", "//", "a\x00", "\ud800", "\t"]
)
def test_a_plain_id_is_one_that_is_valid_and_in_no_tree(name: str) -> None:
    try:
        valid = pool_id(name, "pool", faces=False) == name
    except InvalidRequest:
        valid = False
    assert plain_id(name) is (valid and "//" not in name)


@pytest.mark.parametrize(
    ("leg", "code"),
    [
        (Leg("p", 1), None),
        (Leg("p", MAX_QUANTITY), None),
        (Leg("p", 0), "quantity_out_of_range"),
        (Leg("p", MAX_QUANTITY + 1), "quantity_out_of_range"),
        (Leg("p", True), "quantity_not_whole"),
        (Leg("~p", 1), "pool_reserved"),
        (Leg(Text("p"), 1), "pool_not_text"),
        (Leg("p", 1, create_with_total=-1), "create_with_total_out_of_range"),
        (FaceLeg("p", 1, label="x"), "label_reserved"),
        (FaceLeg("p", 1, opens=1), "closes_reserved"),
        (FaceLeg("p", 1, closes=1), "closes_reserved"),
        (FaceLeg("p", 1, total=1), "total_reserved"),
        (FaceLeg("p", 1, in_use=1), "total_reserved"),
        (("p", 1), "leg_malformed"),
    ],
)
def test_a_leg_alone_is_checked_like_one_of_several(leg: Any, code: str | None) -> None:
    plain_id("p")  # as if it had been named before
    for legs in ((leg,), (leg, Leg("other"))):
        command = PlaceHold(legs=legs, ttl_slots=1)
        if code is None:
            check(command, Limits())
            continue
        with pytest.raises(InvalidRequest) as refused:
            check(command, Limits())
        assert refused.value.code == code


@pytest.mark.parametrize(
    ("leg", "shown"),
    [
        (FaceLeg("~item/seat:A1", 2), "Leg('seat:A1', 2)"),
        (FaceLeg("~claim/res_0011", 1, label="email:ann"), "Leg('email:ann', 1)"),
        (FaceLeg("a" * 80, 1), f"Leg('{'a' * 80}', 1)"),
        (FaceLeg("a" * 41 + "b" * 40, 1), f"Leg('{'a' * 39}…{'b' * 40}', 1)"),
    ],
    ids=["item", "claim", "80 characters", "81 characters"],
)
def test_a_leg_of_a_face_prints_the_name_that_its_users_know(leg: FaceLeg, shown: str) -> None:
    assert repr(leg) == shown


NIGHT = FaceLeg("~window/inn/1", 1, total=3)


@pytest.mark.parametrize(
    ("legs", "given", "code"),
    [
        ((Leg("p"),), {"ttl_slots": 1}, None),
        ((NIGHT,), {"ttl_slots": 1}, None),
        ((NIGHT, Leg("p")), {"deadline": 9}, None),
        ((NIGHT, Leg("~q")), {"ttl_slots": 1}, "pool_reserved"),
        ((Leg("p"), Leg("~q")), {"ttl_slots": 1}, "pool_reserved"),
        ((NIGHT, ("p", 1)), {"ttl_slots": 1}, "leg_malformed"),
        ((NIGHT,), {}, "ttl_required"),
        ([NIGHT], {"ttl_slots": 1}, "legs_required"),
    ],
)
def test_legs_say_whether_a_face_has_made_some_of_them(legs: Any, given: dict[str, Any], code: str | None) -> None:
    command = PlaceHold(legs=legs, **given)
    if code is None:
        check(command, Limits(), faces=None)
        return
    with pytest.raises(InvalidRequest) as raised:
        check(command, Limits(), faces=None)
    assert raised.value.code == code


def test_a_command_without_legs_has_none_of_a_face() -> None:
    check(CreatePool(id="p", total=1), Limits(), faces=None)
    with pytest.raises(InvalidRequest) as raised:
        check(CreatePool(id="~p", total=1), Limits(), faces=None)
    assert raised.value.code == "id_reserved"
