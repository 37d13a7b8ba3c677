"""Bad input, of lines, accounts and trees: every branch, with its field, its code and its words."""

from __future__ import annotations

from typing import Any

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import (
    ArchivePool,
    Consume,
    CreatePool,
    FeedLine,
    JoinLine,
    LeaveLine,
    LimitPool,
    PlaceHold,
    ReassignHold,
    RemovePool,
    ResizePool,
    ReturnToPool,
    UnarchivePool,
)
from holdkit.core.model import Leg
from holdkit.core.trees import MAX_LEVELS
from holdkit.core.validation import check, unfit_for
from holdkit.errors import InvalidRequest
from tests.unit.core.test_validation import BAD_LEGS, BAD_METADATA, BIG, BOUNDS, HOLD, ID, NUMBER, SPAN, wrongs

LIMITS = Limits(min_ttl=2, max_ttl=3_000_000, max_legs=3)
GOOD: dict[type[Any], dict[str, Any]] = {
    CreatePool: {"id": "p//a", "total": 5, "per_account": 4, "line": "skip"},
    LimitPool: {"id": "p//a", "per_account": 4, "if_version": 1},
    FeedLine: {"id": "p"},
    PlaceHold: {"legs": (Leg("p"),), "ttl_slots": 60, "account": "ann", "wait_slots": 5, "offer_slots": 6},
    Consume: {"legs": (Leg("p//a"), Leg("q")), "account": "ann", "force": True, "reason": "why"},
    JoinLine: {"legs": (Leg("p"),), "ttl_slots": 60, "offer_slots": 10, "account": "ann"},
    LeaveLine: {"id": HOLD, "placed_op": "o"},
    ReturnToPool: {"id": "p//a", "quantity": 1, "force": True, "reason": "why", "account": "ann"},
    ReassignHold: {"id": HOLD, "account": "ann"},
}
ACCOUNTS: list[type[Any]] = [PlaceHold, Consume, JoinLine, ReturnToPool, ReassignHold]
BIRTHS: list[type[Any]] = [PlaceHold, Consume, JoinLine]
POOLS: list[type[Any]] = [CreatePool, LimitPool, FeedLine]
NO_LINE = "a line stands only at a pool that was created as one, not on demand, and that is below no other"
NAME = "has // for a pool below another: there must be a name on both sides"
SAY = "say how long to wait (ttl), and how long an offer stands (offer_ttl)"
TREES = ["a///b", "a////b", "//a", "a//", "a// //b", "a//\u2003", "//", "////", "a//b///c", "a/////b"]
DEEP = "//".join("abcdefghi")
SLOTS = "must lie between 1 and 9223372036854775807"

TABLE: list[tuple[type[Any], dict[str, Any], str, str, str]] = [
    *((command, bad, f, f"{f}_{code}", say) for command in ACCOUNTS for bad, f, code, say in wrongs("account", 256)),
    *((command, {"account": 7}, "account", "account_not_text", "must be text, not int") for command in ACCOUNTS),
    *((command, {"force": 1}, "force", "force_not_boolean", "must be True or False") for command in BIRTHS),
    *((command, {"force": True, "reason": None}, "reason", "reason_required", "a forced hold must say why")
      for command in BIRTHS),
    (ReassignHold, {"force": 1}, "force", "force_not_boolean", "must be True or False"),
    (ReassignHold, {"force": True}, "reason", "reason_required", "a forced reassign must say why"),
    *((JoinLine, bad, field, code, say) for bad, field, code, say in BAD_LEGS),
    *((JoinLine, {"metadata": bad}, "metadata", code, say) for bad, code, say in BAD_METADATA),
    *((command, {"id": bad}, "id", "id_malformed", ID) for command in (JoinLine, LeaveLine)
      for bad in (5, "", "x", HOLD[:-1], HOLD.upper())),
    # A line stands at one pool of its own
    *((command, {"legs": (Leg("p"), Leg("q"))}, "legs", "line_of_several", "only one pool can be waited for, not 2 at once")
      for command in (PlaceHold, JoinLine)),
    *((command, {"legs": (leg,)}, "pool", "pool_without_line", NO_LINE)
      for command in (PlaceHold, JoinLine) for leg in (Leg("p//a"), Leg("p", 1, 5))),
    (JoinLine, {"ttl_slots": None}, "ttl", "ttl_required", SAY),
    (JoinLine, {"offer_slots": None}, "offer_ttl", "offer_ttl_required", SAY),
    *((JoinLine, {field: bad}, name, f"{name}_{code}", say)
      for field, name in (("ttl_slots", "ttl"), ("offer_slots", "offer_ttl"))
      for bad, code, say in ((1, "too_short", "must be at least 0.002ms (min_ttl)"),
                             (3_000_001, "too_long", "must be at most 3s (max_ttl)"),
                             ("5m", "malformed", SPAN), (True, "malformed", SPAN), (1.5, "malformed", SPAN))),
    (PlaceHold, {"ttl_slots": None, "deadline": 9}, "ttl", "ttl_required",
     "a hold that may wait needs a ttl, which begins with its grant"),
    *((PlaceHold, {field: bad}, name, f"{name}_{code}", say)
      for field, name in (("wait_slots", "wait"), ("offer_slots", "offer_ttl"))
      for bad, code, say in ((None, "not_whole", NUMBER + "NoneType"), (0, "too_short", "must be more than 0"),
                             (2**63, "out_of_range", SLOTS), (1.0, "not_whole", NUMBER + "float"))),
    *((LeaveLine, bad, f, f"{f}_{code}", say) for bad, f, code, say in wrongs("placed_op", 255)),
    *((LeaveLine, bad, f, f"{f}_{code}", say) for bad, f, code, say in wrongs("token", 512)),
    *((JoinLine, bad, f, f"{f}_{code}", say) for bad, f, code, say in wrongs("entity", 256)),
    # Limits per account
    *((command, {"per_account": bad}, "per_account", f"per_account_{code}", say)
      for command in (CreatePool, LimitPool)
      for bad, code, say in ((0, "out_of_range", BOUNDS.format(1)), (-1, "out_of_range", BOUNDS.format(1)),
                             (BIG, "out_of_range", BOUNDS.format(1)), (True, "not_whole", NUMBER + "bool"),
                             ("4", "not_whole", NUMBER + "str"))),
    (LimitPool, {"if_version": 0}, "if_version", "if_version_out_of_range", BOUNDS.format(1)),
    *((CreatePool, {"line": bad}, "line", "line_unknown", "must be strict or skip") for bad in ("fair", "", None, 5)),
    # Trees
    *((command, {"id": bad}, "id", "id_malformed", NAME) for command in POOLS for bad in TREES),
    *((command, {"id": DEEP}, "id", "id_too_deep", "is 9 levels deep, at most 8 are allowed") for command in POOLS),
    *((command, {"id": "~p//a"}, "id", "id_reserved", "ids that begin with ~ are reserved") for command in POOLS),
    *((Consume, {"legs": (Leg(bad),)}, "pool", "pool_malformed", NAME) for bad in TREES),
    (Consume, {"legs": (Leg(DEEP),)}, "pool", "pool_too_deep", "is 9 levels deep, at most 8 are allowed"),
    (ReturnToPool, {"id": "a//"}, "pool", "pool_malformed", NAME),
    (Consume, {"legs": (Leg("a//b//c//d"),)}, "legs", "legs_too_many", "move more than 3 pools, with those above them"),
    (Consume, {"legs": (Leg("a//b"), Leg("c//d"))}, "legs", "legs_too_many", "move more than 3 pools, with those above them"),
]  # fmt: skip


@pytest.mark.parametrize("command", list(GOOD))
def test_the_rows_are_fine_before_they_are_spoiled(command: type[Any]) -> None:
    check(command(**GOOD[command]), LIMITS)


@pytest.mark.parametrize(("command", "bad", "field", "code", "words"), TABLE)
def test_refused(command: type[Any], bad: dict[str, Any], field: str, code: str, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(command(**GOOD[command] | bad), LIMITS)
    assert (caught.value.field, caught.value.code) == (field, code)
    assert str(caught.value) == f"holdkit: {field}: {words}"


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert len(TABLE) > 200


@pytest.mark.parametrize(
    ("command", "fine"),
    [
        *((command, {"account": "x" * 256}) for command in ACCOUNTS),
        *((command, {"account": None}) for command in ACCOUNTS),
        *((command, {"per_account": 2**53 - 1}) for command in (CreatePool, LimitPool)),
        *((command, {"per_account": None}) for command in (CreatePool, LimitPool)),
        *((command, {"id": "//".join("abcdefgh")}) for command in POOLS),
        *((command, {"id": "a/b//c/d// e"}) for command in POOLS),
        (CreatePool, {"line": "strict"}),
        (LimitPool, {"if_version": None}),
        (JoinLine, {"ttl_slots": 2, "offer_slots": 3_000_000}),
        (JoinLine, {"id": HOLD, "metadata": {"a": 1}, "force": True, "reason": "why"}),
        (PlaceHold, {"wait_slots": 1, "offer_slots": 2**63 - 1}),
        (PlaceHold, {"wait_slots": None, "offer_slots": None, "legs": (Leg("p//a"), Leg("q"))}),
        (Consume, {"legs": (Leg("a//b//c"),)}),
        (Consume, {"legs": (Leg("a//b"), Leg("a//c"))}),
        (Consume, {"legs": (Leg("a//b"), Leg("a"), Leg("c"))}),
        (LeaveLine, {"placed_op": None, "token": "x" * 512}),
        (LeaveLine, {"placed_op": "x" * 255}),
    ],
)
def test_just_fine(command: type[Any], fine: dict[str, Any]) -> None:
    check(command(**GOOD[command] | fine), LIMITS)


@pytest.mark.parametrize("command", [RemovePool, ArchivePool, UnarchivePool])
def test_every_command_about_a_pool_takes_a_path(command: type[Any]) -> None:
    check(command(id="p//a"), LIMITS)
    with pytest.raises(InvalidRequest, match="there must be a name on both sides"):
        check(command(id="p///a"), LIMITS)


def test_faces_have_ids_of_their_own() -> None:
    """Their pools are in no tree, whatever their ids contain, and have no lines."""
    check(ResizePool(id="~items:a////b", total=1), LIMITS, faces=True)
    check(Consume(legs=(Leg("~a//b//c//d//e"),)), LIMITS, faces=True)
    with pytest.raises(InvalidRequest, match=NO_LINE):
        check(JoinLine(legs=(Leg("~a"),), ttl_slots=60, offer_slots=60), LIMITS, faces=True)


def test_levels_are_as_many_as_the_docs_say() -> None:
    assert MAX_LEVELS == 8


def test_limits_that_have_changed_since_a_command_was_checked() -> None:
    asked = JoinLine(**GOOD[JoinLine])
    assert unfit_for(asked, LIMITS) is None
    for limits, code in ((Limits(max_ttl=50), "ttl_too_long"), (Limits(max_ttl=60), None), (Limits(min_ttl=20), "offer_ttl_too_short")):  # fmt: skip
        unfit = unfit_for(asked, limits)
        assert (None if unfit is None else unfit.code) == code
