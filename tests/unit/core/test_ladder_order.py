"""Every rung of every ladder, and their order: where two troubles meet, the upper one is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdkit.core.codec import minted_id
from holdkit.core.commands import (
    COMMANDS,
    ArchivePool,
    CreatePool,
    FeedLine,
    LimitPool,
    PutRecord,
    RemovePool,
    ResizePool,
    ReturnToPool,
    Sweep,
    UnarchivePool,
)
from holdkit.core.face_legs import FaceLeg
from holdkit.core.model import Leg
from holdkit.core.outcomes import Reason
from tests.unit.core.ladder_cases import NOW, Rung, Situation, cases, name_of
from tests.unit.core.world import (
    confirm,
    consume,
    expire,
    extend,
    give_back,
    join,
    leave,
    place,
    reassign,
    release,
)

OLD = minted_id(0, b"0123456789")


def fields(**changed: Any) -> Callable[[Situation], None]:
    """Spoil fields of the command."""
    return lambda situation: situation.fields.update(changed)


def limits(**changed: int) -> Callable[[Situation], None]:
    """Spoil limits."""
    return lambda situation: situation.limits.update(changed)


def earlier(*commands: Any, slot: int = 5) -> Callable[[Situation], None]:
    """Something happened before."""
    return lambda situation: situation.before.extend((slot, command) for command in commands)


def at(slot: int) -> Callable[[Situation], None]:
    """It is another time."""

    def spoil(situation: Situation) -> None:
        situation.slot = slot

    return spoil


def leg(pool: str, quantity: int, create: int | None = None, **more: Any) -> Callable[[Situation], None]:
    """One more leg, or another quantity of one that is there."""

    def spoil(situation: Situation) -> None:
        others = tuple(other for other in situation.fields["what"] if other.pool != pool)
        situation.fields["what"] = (
            *others,
            FaceLeg(pool, quantity, create, **more) if more else Leg(pool, quantity, create),
        )

    return spoil


def amount(**amounts: int) -> Callable[[Situation], None]:
    """Name amounts by pool, beside those already named."""
    return lambda situation: situation.fields.update(quantity={**(situation.fields.get("quantity") or {}), **amounts})


def both(*spoilers: Callable[[Situation], None]) -> Callable[[Situation], None]:
    """Several at once."""

    def spoil(situation: Situation) -> None:
        for one in spoilers:
            one(situation)

    return spoil


CONFLICT = Rung("operation_conflict", both(fields(op="o"), earlier(PutRecord(kind="k", id="i", body="1", op="o"))))
TABLE_FULL = Rung("operation_table_full", both(fields(op="o"), limits(max_operations=0)))

OVERFLOW = "slot_overflow"
PASSED = "deadline_passed"
LIFETIME = "lifetime_exceeded"

REQUIRED = "account_required"
BEYOND = "account_limit"
NEW_IS_TAKEN = Rung("hold_exists", earlier(place("new", (Leg("~x", 1, 1),), deadline=1000)))
HOLDS_FULL = Rung("hold_table_full", limits(max_holds=0))


def bought(pool: str) -> Callable[[Situation], None]:
    """An account has all that it may have of a pool, and asks for more."""

    def spoil(situation: Situation) -> None:
        situation.fields["account"] = "ann"
        mine: list[Any] = [LimitPool(id=pool, per_account=1), consume("mine", pool, account="ann")]
        situation.before[2:2] = [(1, command) for command in mine]  # before there is a line

    return spoil


def waited_for(pool: str, total: int = 10) -> Callable[[Situation], None]:
    """Somebody waits for all units of a pool, most of which are available."""
    forced: dict[str, Any] = {"force": True, "reason": "whatever the limit is"}
    return earlier(place("first", pool, deadline=1000, **forced), join("second", {pool: total}, 1000, **forced))


TAKE = [
    Rung("pool_not_found", leg("nowhere", 1)),
    Rung("pool_archived", earlier(ArchivePool(id="q"))),
    Rung("window_closed", leg("~window", 1, 1, opens=NOW - 5, closes=NOW)),
    Rung(REQUIRED, earlier(LimitPool(id="q", per_account=5)), BEYOND),
    NEW_IS_TAKEN,
    Rung("pool_table_full", both(leg("~born", 1, 1), limits(max_pools=2))),
    HOLDS_FULL,
    Rung(BEYOND, bought("q"), REQUIRED),
    Rung("insufficient_capacity", leg("p", 11)),
    Rung("line_ahead", waited_for("p")),
]
TAKE_BELOW = [
    Rung("pool_archived", earlier(ArchivePool(id="p"))),
    Rung(REQUIRED, earlier(LimitPool(id="p", per_account=5)), BEYOND),
    NEW_IS_TAKEN,
    HOLDS_FULL,
    Rung(BEYOND, bought("p"), REQUIRED),
    Rung("insufficient_capacity", leg("p//a", 11)),
    Rung("line_ahead", waited_for("p")),
]
"""Of a pool below p: every trouble is p's."""
JOIN = [
    CONFLICT,
    TABLE_FULL,
    Rung(OVERFLOW, fields(ttl=2**63)),
    Rung(LIFETIME, limits(max_lifetime=49)),
    Rung("pool_not_found", fields(what=(Leg("nowhere"),)), "pool_without_line"),
    Rung(
        "pool_without_line", both(earlier(place("a", (Leg("~y", 1, 1),))), fields(what=(Leg("~y"),))), "pool_not_found"
    ),
    Rung("pool_archived", earlier(ArchivePool(id="p"))),
    Rung(REQUIRED, earlier(LimitPool(id="p", per_account=5)), BEYOND),
    NEW_IS_TAKEN,
    Rung("line_full", limits(max_line=0)),
    HOLDS_FULL,
    Rung(BEYOND, bought("p"), REQUIRED),
    Rung("insufficient_capacity", fields(what=(Leg("p", 11),))),
]
PLACE = [
    CONFLICT,
    TABLE_FULL,
    Rung(OVERFLOW, fields(deadline=2**63), PASSED),
    Rung(PASSED, fields(deadline=NOW), OVERFLOW, LIFETIME),
    Rung(LIFETIME, limits(max_lifetime=89), PASSED),
    *TAKE,
]
CREATE = [
    CONFLICT,
    TABLE_FULL,
    Rung("pool_exists", fields(id="p")),
    Rung("pool_table_full", limits(max_pools=2)),
]
CREATE_BELOW = [
    CONFLICT,
    TABLE_FULL,
    Rung("pool_exists", earlier(CreatePool(id="p//new", total=1)), "pool_not_found"),
    Rung("pool_not_found", fields(id="nowhere//new"), "pool_exists"),
    Rung("pool_table_full", limits(max_pools=2)),
]
RESIZE = [
    CONFLICT,
    TABLE_FULL,
    Rung("pool_not_found", fields(id="nowhere"), "below_in_use"),
    Rung("below_in_use", both(earlier(place("other", {"p": 5}, deadline=1000)), fields(total=4)), "pool_not_found"),
    Rung("version_conflict", fields(if_version=99)),
]
NOWHERE = Rung("pool_not_found", fields(id="nowhere"))
REMOVE = [CONFLICT, TABLE_FULL, NOWHERE, Rung("pool_in_use", earlier(place("other", {"p": 5}, deadline=1000)))]
ARCHIVE = [CONFLICT, TABLE_FULL, NOWHERE]
LIMIT = [CONFLICT, TABLE_FULL, NOWHERE, Rung("version_conflict", fields(if_version=99))]
RETURN_LOOSE = [CONFLICT, TABLE_FULL, NOWHERE, Rung("quantity_exceeds_consumed", fields(quantity=2))]

# Commands that name a hold: "x" has 5 of p, of q and of ~w (of 10 each) from slot 1 until slot 100.

MISSING = "hold_not_found"
RETIRED = "hold_retired"
ENDS = ("already_confirmed", "already_released", "hold_expired")

FIND = [
    Rung(MISSING, fields(name="missing"), RETIRED),
    Rung(RETIRED, both(fields(id=OLD), limits(retention=NOW)), MISSING),
]
OWNER = Rung("not_owner", fields(token="thief"))
LIVE = [
    Rung("already_confirmed", earlier(confirm("x")), *ENDS),
    Rung("already_released", earlier(release("x")), *ENDS),
    Rung("hold_expired", at(100), *ENDS),
]
MORE_THAN_IS_HELD = ("quantity_exceeds_hold", "pool_archived", "window_closed", REQUIRED, BEYOND, "insufficient_capacity", "line_ahead")  # fmt: skip
AMBIGUOUS = Rung("amount_ambiguous", fields(quantity=3), "leg_unknown", *MORE_THAN_IS_HELD)
UNKNOWN = Rung("leg_unknown", amount(z=1), "amount_ambiguous")
EXCEEDS = Rung("quantity_exceeds_hold", amount(p=6), "amount_ambiguous", *MORE_THAN_IS_HELD[1:])
EXTRA = fields(overage="if_available")
OVERAGE = [
    Rung(
        "pool_archived",
        both(amount(q=6), EXTRA, earlier(ArchivePool(id="q"))),
        "amount_ambiguous",
        "quantity_exceeds_hold",
    ),
    Rung("window_closed", both(amount(**{"~w": 6}), EXTRA), "amount_ambiguous", "quantity_exceeds_hold"),
    Rung(
        REQUIRED,
        both(amount(q=6), EXTRA, earlier(LimitPool(id="q", per_account=9))),
        "amount_ambiguous",
        "quantity_exceeds_hold",
    ),
    Rung("insufficient_capacity", both(amount(p=11), EXTRA), "amount_ambiguous", "quantity_exceeds_hold"),
    Rung(
        "line_ahead",
        both(amount(p=6), EXTRA, earlier(join("second", {"p": 10}, 80))),
        "amount_ambiguous",
        "quantity_exceeds_hold",
    ),
]
# The same for a hold of ann, who has 5 of 5.
OVERAGE_OF_ANN = [
    Rung("pool_archived", both(amount(p=6), earlier(ArchivePool(id="p")))),
    Rung(BEYOND, both(amount(p=6), earlier(LimitPool(id="p", per_account=5)))),
    Rung("insufficient_capacity", amount(p=11)),
    Rung("line_ahead", both(amount(p=6), earlier(join("second", {"p": 10}, 80)))),
]
CONFIRM = [CONFLICT, *FIND, OWNER, *LIVE, AMBIGUOUS, UNKNOWN, EXCEEDS, *OVERAGE]
RELEASE = [CONFLICT, *FIND, OWNER, *LIVE, AMBIGUOUS, UNKNOWN, EXCEEDS]
EXTEND = [
    CONFLICT,
    TABLE_FULL,
    *FIND,
    OWNER,
    *LIVE,
    Rung(OVERFLOW, fields(until=2**63), PASSED),
    Rung(PASSED, fields(until=NOW), OVERFLOW, LIFETIME),
    Rung(LIFETIME, limits(max_lifetime=198), PASSED),
]
# The same for 5 of p and 5 of q//a, to bob, who may have 9 of q.
REASSIGN = [
    CONFLICT,
    TABLE_FULL,
    *FIND,
    OWNER,
    *LIVE,
    Rung(REQUIRED, both(fields(account=None), earlier(LimitPool(id="q", per_account=9))), BEYOND),
    Rung(
        BEYOND,
        both(earlier(LimitPool(id="q", per_account=9)), earlier(consume("his", {"q": 5}, account="bob"))),
        REQUIRED,
    ),
]
EXPIRE = [CONFLICT, TABLE_FULL, *FIND, *LIVE[:2], Rung("not_due", at(99))]
# A hold that waits: "x" for 5 of p, from slot 1 until slot 100.
WAITER = [CONFLICT, *FIND, OWNER, *LIVE[1:]]
RELEASE_WAITER = [*WAITER, Rung("quantity_exceeds_hold", fields(quantity=5))]
EXTEND_WAITER = [CONFLICT, TABLE_FULL, *WAITER[1:], *EXTEND[-3:]]
EXPIRE_WAITER = [CONFLICT, TABLE_FULL, *FIND, LIVE[1], Rung("not_due", at(99))]
LEAVE = [CONFLICT, TABLE_FULL, *FIND, OWNER]
RETURN = [CONFLICT, TABLE_FULL, *FIND, OWNER, Rung("not_confirmed", lambda situation: situation.before.remove((5, confirm("x")))),
          AMBIGUOUS, UNKNOWN, EXCEEDS]  # fmt: skip
RECORD = [CONFLICT, TABLE_FULL, Rung("version_conflict", fields(if_version=1))]


def situation(command: str) -> Situation:
    """A command that would be done, before anything is spoiled."""
    builds: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "place": (place, {"name": "new", "what": (Leg("p"), Leg("q")), "deadline": 100}),
        "consume": (consume, {"name": "new", "what": (Leg("p"), Leg("q"))}),
        "place below": (place, {"name": "new", "what": (Leg("p//a"),), "deadline": 100}),
        "consume below": (consume, {"name": "new", "what": (Leg("p//a"),)}),
        "join": (join, {"name": "new", "what": (Leg("p"),)}),
        "confirm of ann": (confirm, {"name": "x", "overage": "if_available"}),
        "release waiter": (release, {"name": "x"}),
        "extend waiter": (extend, {"name": "x", "until": 200}),
        "expire waiter": (expire, {"name": "x"}),
        "leave": (leave, {"name": "x"}),
        "create below": (CreatePool, {"id": "p//new", "total": 1}),
        "limit": (LimitPool, {"id": "p", "per_account": 1}),
        "feed": (FeedLine, {"id": "p"}),
        "return loose": (ReturnToPool, {"id": "p", "quantity": 1, "force": True, "reason": "refund"}),
        "create": (CreatePool, {"id": "new", "total": 1}),
        "resize": (ResizePool, {"id": "p", "total": 5}),
        "remove": (RemovePool, {"id": "p"}),
        "archive": (ArchivePool, {"id": "p"}),
        "unarchive": (UnarchivePool, {"id": "p"}),
        "confirm": (confirm, {"name": "x"}),
        "release": (release, {"name": "x"}),
        "extend": (extend, {"name": "x", "until": 200}),
        "expire": (expire, {"name": "x"}),
        "return": (give_back, {"name": "x"}),
        "reassign": (reassign, {"name": "x", "account": "bob"}),
        "record": (PutRecord, {"kind": "k", "id": "other", "body": "{}", "if_version": 0}),
        "sweep": (Sweep, {}),
    }
    build, arguments = builds[command]
    made = Situation(build, **arguments)
    made.before = [(1, CreatePool(id="p", total=10)), (1, CreatePool(id="q", total=10))]
    if command.endswith("below") and command != "create below":
        made.before.append((1, CreatePool(id="p//a", total=20)))
    if command.endswith("waiter") or command == "leave":
        made.before += [(1, place("full", {"p": 10}, deadline=1000)), (1, join("x", {"p": 5}, 99))]
    if command == "confirm of ann":
        made.before.append((1, place("x", (Leg("p", 5),), deadline=100, account="ann")))
    if command == "return loose":
        made.before += [(1, consume("old", "p")), (3, Sweep())]
        made.earlier_limits = {"retention": 1, "retention_consumed": 1}
    if command in ("confirm", "release", "extend", "expire", "return"):
        window = FaceLeg("~w", 5, 10, opens=0, closes=NOW)  # it is over by then
        made.before.append((1, place("x", (Leg("p", 5), Leg("q", 5), window), deadline=100)))
    if command == "reassign":
        made.before.append((1, CreatePool(id="q//a", total=10)))
        made.before.append((1, place("x", (Leg("p", 5), Leg("q//a", 5)), deadline=100, account="ann")))
    if command == "return":
        made.before.append((5, confirm("x")))
    if command in ("expire", "expire waiter"):
        made.slot = 100
    return made


LADDERS = {
    "place": PLACE,
    "consume": [CONFLICT, TABLE_FULL, *TAKE],
    "place below": [*PLACE[:5], *TAKE_BELOW],
    "consume below": [CONFLICT, TABLE_FULL, *TAKE_BELOW],
    "join": JOIN,
    "confirm of ann": OVERAGE_OF_ANN,
    "release waiter": RELEASE_WAITER,
    "extend waiter": EXTEND_WAITER,
    "expire waiter": EXPIRE_WAITER,
    "leave": LEAVE,
    "limit": LIMIT,
    "feed": ARCHIVE,
    "return loose": RETURN_LOOSE,
    "create": CREATE,
    "create below": CREATE_BELOW,
    "resize": RESIZE,
    "remove": REMOVE,
    "archive": ARCHIVE,
    "unarchive": ARCHIVE,
    "confirm": CONFIRM,
    "release": RELEASE,
    "extend": EXTEND,
    "expire": EXPIRE,
    "return": RETURN,
    "reassign": REASSIGN,
    "record": RECORD,
    "sweep": [CONFLICT, TABLE_FULL],
}
TABLE = [(command, rungs, says) for command, ladder in LADDERS.items() for rungs, says in cases(ladder)]


@pytest.mark.parametrize(("command", "rungs", "says"), TABLE, ids=name_of)
def test_the_upper_rung_wins(command: str, rungs: list[Rung], says: str) -> None:
    played = situation(command)
    for rung in reversed(rungs):  # the upper one last: where both spoil the same field, it stands
        rung.spoil(played)
    assert played.play() == says


def test_the_table_is_as_long_as_it_should_be() -> None:
    assert len(TABLE) > 500


def test_every_refusal_that_a_command_may_get_is_a_rung() -> None:
    rungs: dict[str, set[str]] = {verb: set() for verb in COMMANDS}
    for command, ladder in LADDERS.items():
        played = situation(command)
        rungs[type(played.build(**played.fields)).verb] |= {rung.says for rung in ladder}
    said = {verb: {reason.value for reason in kind.reasons} for verb, kind in COMMANDS.items()}
    rungs["confirm"].add("hold_waiting")  # below
    rungs["reassign"].add("hold_waiting")  # below
    rungs["hold"].add("line_full")  # of a hold that may wait
    rungs["leave"].add("pool_not_found")  # in test_leaving.py
    rungs["change_limits"].add("version_conflict")  # in test_limits.py
    reasons = {reason.value for reason in Reason} - {"operation_conflict", "operation_table_full"}
    assert {verb: says & reasons for verb, says in rungs.items()} == said


@pytest.mark.parametrize(("trouble", "says"), [
    ([], "hold_waiting"),
    ([fields(token="thief")], "not_owner"),
    ([earlier(release("x"))], "already_released"),
    ([at(100)], "hold_expired"),
    ([fields(quantity=9)], "hold_waiting"),
    ([fields(quantity={"p": 0})], "hold_waiting"),
    ([fields(overage="if_available", quantity=6)], "hold_waiting"),
])  # fmt: skip
def test_a_waiter_is_not_confirmed(trouble: list[Callable[[Situation], None]], says: str) -> None:
    played = situation("release waiter")
    played.build = confirm
    both(*trouble)(played)
    assert played.play() == says


@pytest.mark.parametrize(("trouble", "says"), [
    ([], "hold_waiting"),
    ([fields(token="thief")], "not_owner"),
    ([earlier(release("x"))], "already_released"),
    ([at(100)], "hold_expired"),
    ([earlier(LimitPool(id="p", per_account=1))], "hold_waiting"),
])  # fmt: skip
def test_a_waiter_keeps_its_account(trouble: list[Callable[[Situation], None]], says: str) -> None:
    played = situation("release waiter")
    played.build, played.fields = reassign, {"name": "x", "account": "bob"}
    both(*trouble)(played)
    assert played.play() == says


@pytest.mark.parametrize(("trouble", "says"), [
    ([], "not_confirmed"),
    ([fields(token="thief")], "not_owner"),
    ([fields(quantity=1)], "not_confirmed"),
])  # fmt: skip
def test_a_waiter_has_nothing_to_return(trouble: list[Callable[[Situation], None]], says: str) -> None:
    played = situation("release waiter")
    played.build = give_back
    both(*trouble)(played)
    assert played.play() == says


@pytest.mark.parametrize("command", ["confirm", "release", "release waiter"])
def test_a_full_operation_table_never_refuses_the_end_of_a_hold(command: str) -> None:
    played = situation(command)
    TABLE_FULL.spoil(played)
    assert played.play() == "done"
