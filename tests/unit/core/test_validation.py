"""Bad input: every branch, with its field, its code and its words."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import pytest

from holdkit.core.bounds import Limits
from holdkit.core.commands import (
    ConfirmHold,
    Consume,
    CreatePool,
    ExpireHold,
    ExtendHold,
    PlaceHold,
    PutRecord,
    ReleaseHold,
    ResizePool,
    ReturnToPool,
    ReturnUnits,
    Sweep,
)
from holdkit.core.model import Leg
from holdkit.core.validation import check
from holdkit.errors import InvalidRequest

HOLD = "0123456789abcdef" * 2
LIMITS = Limits(min_ttl=2, max_ttl=3_000_000, max_legs=3)
GOOD: dict[type[Any], dict[str, Any]] = {
    CreatePool: {"id": "p", "total": 5},
    ResizePool: {"id": "p", "total": 5},
    PlaceHold: {"legs": (Leg("p"), Leg("q", 2)), "ttl_slots": 60},
    Consume: {"legs": (Leg("p"),)},
    ConfirmHold: {"id": HOLD},
    ReleaseHold: {"id": HOLD},
    ExtendHold: {"id": HOLD, "by_slots": 60},
    ExpireHold: {"id": HOLD},
    ReturnUnits: {"id": HOLD},
    ReturnToPool: {"id": "p", "quantity": 1, "force": True, "reason": "why"},
    PutRecord: {"kind": "k", "id": "i", "body": "{}"},
    Sweep: {},
}
NAMED: list[type[Any]] = [ConfirmHold, ReleaseHold, ExtendHold, ExpireHold, ReturnUnits]
BIRTHS: list[type[Any]] = [PlaceHold, Consume]
OWNED: list[type[Any]] = [PlaceHold, Consume, ConfirmHold, ReleaseHold, ExtendHold, ReturnUnits]
VOUCHED: list[type[Any]] = [ConfirmHold, ReleaseHold, ExtendHold, ReturnUnits]
FOR_FACES = "is for faces, which vouch for the caller"
AMOUNTS: list[type[Any]] = [ConfirmHold, ReleaseHold, ReturnUnits]
ENTITIES: list[type[Any]] = [PlaceHold, Consume, ConfirmHold]
POOLS: list[type[Any]] = [CreatePool, ResizePool]

UNPRINTABLE = "must not contain control characters or lone surrogates"
BIG = 2**53


class Tagged(str):
    """Text of another kind, as template libraries have."""

    __slots__ = ()


class Wide(int):
    """A number of another kind."""


class Word(StrEnum):
    """Enumerated text is text."""

    ONE = "one"


def wrongs(field: str, limit: int, given: str | None = None) -> list[tuple[dict[str, Any], str, str, str]]:
    """All that can be wrong with a text."""
    name = given or field
    return [
        ({name: 5}, field, "not_text", "must be text, not int"),
        ({name: b"x"}, field, "not_text", "must be text, not bytes"),
        ({name: Tagged("x")}, field, "not_text", "must be text, not Tagged"),
        ({name: ""}, field, "required", "must not be empty or blank"),
        ({name: " \u2003"}, field, "required", "must not be empty or blank"),
        ({name: "x" * (limit + 1)}, field, "too_long", f"has {limit + 1} characters, at most {limit} are allowed"),
        *(({name: f"a{bad}b"}, field, "unprintable", UNPRINTABLE) for bad in "\x00\x1f\n\x7f\x9f\ud800\udfff"),
    ]


def texts(commands: list[type[Any]], field: str, limit: int) -> list[tuple[type[Any], dict[str, Any], str, str, str]]:
    """The same for every command that has the field."""
    return [
        (command, bad, where, f"{where}_{code}", words)
        for command in commands
        for bad, where, code, words in wrongs(field, limit)
    ]


def legs(*given: Any) -> dict[str, Any]:
    """As the field."""
    return {"legs": given}


NUMBER = "must be a whole number, not "
ID = "must be a 128-bit id: a UUID, or its 32 hex digits"
SPAN = "must be seconds, a timedelta, or text such as '90s', '5m', '2h'"
BOUNDS = "must lie between {} and 9007199254740991"
ONE_OF = "give exactly one of by, ttl or until"


def deep(levels: int) -> dict[str, Any]:
    """An object of so many levels."""
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def nested(levels: int) -> list[Any]:
    """A list of so many levels."""
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


BAD_METADATA: list[tuple[Any, str, str]] = [
    ([], "metadata_not_object", "must be a JSON object, not list"),
    ("{}", "metadata_not_object", "must be a JSON object, not str"),
    (deep(33), "metadata_too_deep", "is nested deeper than 32 levels"),
    ({"a": [[[{"b": deep(29)}]]]}, "metadata_too_deep", "is nested deeper than 32 levels"),
    ({"a": nested(32)}, "metadata_too_deep", "is nested deeper than 32 levels"),
    ({1: 1}, "metadata_key_not_text", "must have text keys only"),
    ({"a": {None: 1}}, "metadata_key_not_text", "must have text keys only"),
    ({"a": "\x00"}, "metadata_unprintable", "must not contain NUL or lone surrogates"),
    ({"\x00": 1}, "metadata_unprintable", "must not contain NUL or lone surrogates"),
    ({"a": ("\udfff",)}, "metadata_unprintable", "must not contain NUL or lone surrogates"),
    ({"a": float("nan")}, "metadata_not_finite", "must not contain NaN or infinity"),
    ({"a": float("inf")}, "metadata_not_finite", "must not contain NaN or infinity"),
    ({"a": -float("inf")}, "metadata_not_finite", "must not contain NaN or infinity"),
    ({"a": 2**63}, "metadata_number_too_large", "holds a whole number beyond 64 bits"),
    ({"a": -(2**63)}, "metadata_number_too_large", "holds a whole number beyond 64 bits"),
    ({"a": object()}, "metadata_not_json", "holds a object, which JSON cannot carry"),
    ({"a": b"x"}, "metadata_not_json", "holds a bytes, which JSON cannot carry"),
    (
        {"a": Tagged("x")},
        "metadata_not_json",
        "cannot be written as JSON: Encoding objects of type Tagged is unsupported",
    ),
    ({"a": Wide(1)}, "metadata_not_json", "cannot be written as JSON: Encoding objects of type Wide is unsupported"),
    ({"a": "x" * 16_377}, "metadata_too_large", "is larger than 16384 bytes as JSON"),
    ({"a": "é" * 8_189}, "metadata_too_large", "is larger than 16384 bytes as JSON"),
]
BAD_LEGS: list[tuple[dict[str, Any], str, str, str]] = [
    (legs(), "legs", "legs_required", "at least one pool must be named"),
    ({"legs": [Leg("p")]}, "legs", "legs_required", "at least one pool must be named"),
    (legs(*map(Leg, "abcd")), "legs", "legs_too_many", "4 legs, at most 3 are allowed"),
    (legs(("p", 1)), "legs", "leg_malformed", "must be a Leg, not tuple"),
    (legs(Leg("p"), Leg("q"), Leg("p")), "legs", "pool_twice", "pool 'p' is named twice"),
    (legs(Leg("~p")), "pool", "pool_reserved", "ids that begin with ~ are reserved"),
    (legs(Leg("p", 0)), "quantity", "quantity_out_of_range", BOUNDS.format(1)),
    (legs(Leg("p", -1)), "quantity", "quantity_out_of_range", BOUNDS.format(1)),
    (legs(Leg("p", BIG)), "quantity", "quantity_out_of_range", BOUNDS.format(1)),
    (legs(Leg("p", True)), "quantity", "quantity_not_whole", NUMBER + "bool"),
    (legs(Leg("p", 1.0)), "quantity", "quantity_not_whole", NUMBER + "float"),  # type: ignore[arg-type]
    (legs(Leg("p", 1, -1)), "create_with_total", "create_with_total_out_of_range", BOUNDS.format(0)),
    (legs(Leg("p", 1, BIG)), "create_with_total", "create_with_total_out_of_range", BOUNDS.format(0)),
    (legs(Leg("p", 1, False)), "create_with_total", "create_with_total_not_whole", NUMBER + "bool"),
    *((legs(Leg(bad["pool"])), field, f"{field}_{code}", words) for bad, field, code, words in wrongs("pool", 512)),
]
BAD_AMOUNTS: list[tuple[Any, str, str]] = [
    (0, "quantity_out_of_range", BOUNDS.format(1)),
    (BIG, "quantity_out_of_range", BOUNDS.format(1)),
    (True, "quantity_not_whole", NUMBER + "bool"),
    ("1", "quantity_not_whole", NUMBER + "str"),
    ({"p": -1}, "quantity_out_of_range", BOUNDS.format(0)),
    ({"p": BIG}, "quantity_out_of_range", BOUNDS.format(0)),
    ({"p": None}, "quantity_not_whole", NUMBER + "NoneType"),
    ({"p": 0, "q": 0}, "quantity_required", "must name an amount above 0 for at least one pool"),
    ({}, "quantity_required", "must name an amount above 0 for at least one pool"),
    ({1: 1}, "quantity_not_text", "must be text, not int"),
    ({"x" * 513: 1}, "quantity_too_long", "has 513 characters, at most 512 are allowed"),
]
TABLE: list[tuple[type[Any], dict[str, Any], str, str, str]] = [
    *texts(list(GOOD), "op", 255),
    *texts(list(GOOD), "actor", 1024),
    *texts(list(GOOD), "correlation_id", 1024),
    *texts(list(GOOD), "reason", 1024),
    *(row for row in texts(list(GOOD), "tenant", 64) if row[1] != {"tenant": ""}),
    *((command, {"tenant": None}, "tenant", "tenant_not_text", "must be text, not NoneType") for command in GOOD),
    *texts(OWNED, "token", 512),
    *texts(ENTITIES, "entity", 256),
    *texts(POOLS, "id", 512),
    *texts([PutRecord], "id", 512),
    *texts([PutRecord], "kind", 64),
    *((command, {"id": "~p"}, "id", "id_reserved", "ids that begin with ~ are reserved") for command in POOLS),
    *((command, {"total": -1}, "total", "total_out_of_range", BOUNDS.format(0)) for command in POOLS),
    *((command, {"total": BIG}, "total", "total_out_of_range", BOUNDS.format(0)) for command in POOLS),
    *((command, {"total": 1.5}, "total", "total_not_whole", NUMBER + "float") for command in POOLS),
    *(
        (command, {"id": bad}, "id", "id_malformed", ID)
        for command in [*NAMED, *BIRTHS]
        for bad in (5, "", "x", HOLD[:-1], HOLD + "0", HOLD.upper(), f" {HOLD[1:]}", HOLD + "\n", Tagged(HOLD))
    ),
    *((command, bad, field, code, words) for command in BIRTHS for bad, field, code, words in BAD_LEGS),
    *((command, {"metadata": bad}, "metadata", code, words) for command in BIRTHS for bad, code, words in BAD_METADATA),
    *((command, {"quantity": bad}, "quantity", code, words) for command in AMOUNTS for bad, code, words in BAD_AMOUNTS),
    (PlaceHold, {"deadline": 5}, "deadline", "deadline_ambiguous", "give a ttl or a deadline, not both"),
    (PlaceHold, {"ttl_slots": None}, "ttl", "ttl_required", "a hold needs a ttl or a deadline"),
    (PlaceHold, {"ttl_slots": None, "deadline": 5.0}, "deadline", "deadline_malformed", "must be a slot or an aware datetime"),
    (PlaceHold, {"ttl_slots": None, "deadline": True}, "deadline", "deadline_malformed", "must be a slot or an aware datetime"),
    (PlaceHold, {"ttl_slots": 1}, "ttl", "ttl_too_short", "must be at least 0.002ms (min_ttl)"),
    (PlaceHold, {"ttl_slots": 3_000_001}, "ttl", "ttl_too_long", "must be at most 3s (max_ttl)"),
    (PlaceHold, {"ttl_slots": 1.5}, "ttl", "ttl_malformed", SPAN),
    (ExtendHold, {"by_slots": None}, "by", "by_required", ONE_OF),
    (ExtendHold, {"ttl_slots": 5}, "by", "by_ambiguous", ONE_OF),
    (ExtendHold, {"until": 5}, "by", "by_ambiguous", ONE_OF),
    (ExtendHold, {"by_slots": 1}, "by", "by_too_short", "must be at least 0.002ms (min_ttl)"),
    (ExtendHold, {"by_slots": 3_000_001}, "by", "by_too_long", "must be at most 3s (max_ttl)"),
    (ExtendHold, {"by_slots": "5m"}, "by", "by_malformed", SPAN),
    (ExtendHold, {"by_slots": None, "ttl_slots": 1}, "ttl", "ttl_too_short", "must be at least 0.002ms (min_ttl)"),
    (ExtendHold, {"by_slots": None, "ttl_slots": 3_000_001}, "ttl", "ttl_too_long", "must be at most 3s (max_ttl)"),
    (ExtendHold, {"by_slots": None, "ttl_slots": True}, "ttl", "ttl_malformed", SPAN),
    (ExtendHold, {"by_slots": None, "until": "soon"}, "until", "until_malformed", "must be a slot or an aware datetime"),
    (ExtendHold, {"by_slots": None, "forever": True}, "forever", "forever_reserved", FOR_FACES),
    (ExtendHold, {"forever": 1}, "forever", "forever_not_boolean", "must be True or False"),
    *((command, {"trusted": True}, "trusted", "trusted_reserved", FOR_FACES) for command in VOUCHED),
    (ConfirmHold, {"others_as_held": True}, "others_as_held", "others_as_held_reserved", FOR_FACES),
    *((command, {"trusted": "yes"}, "trusted", "trusted_not_boolean", "must be True or False") for command in VOUCHED),
    (ConfirmHold, {"overage": "maybe"}, "overage", "overage_unknown", "must be reject, if_available or up_to_available"),
    (ConfirmHold, {"overage": None}, "overage", "overage_unknown", "must be reject, if_available or up_to_available"),
    (CreatePool, {"exist_ok": 1}, "exist_ok", "exist_ok_not_boolean", "must be True or False"),
    (CreatePool, {"exist_ok": None}, "exist_ok", "exist_ok_not_boolean", "must be True or False"),
    (ConfirmHold, {"keep_rest": 1}, "keep_rest", "keep_rest_not_boolean", "must be True or False"),
    (ConfirmHold, {"force": 1}, "force", "force_not_boolean", "must be True or False"),
    (ConfirmHold, {"force": True}, "reason", "reason_required", "a forced confirm must say why"),
    (ExtendHold, {"force": None}, "force", "force_not_boolean", "must be True or False"),
    (ExtendHold, {"force": True}, "reason", "reason_required", "a forced extend must say why"),
    (ExtendHold, {"force": True, "reason": "why", "forever": True}, "forever", "forever_reserved",
     "is for faces, which vouch for the caller"),
    (ReleaseHold, {"force": "yes"}, "force", "force_not_boolean", "must be True or False"),
    (ReleaseHold, {"force": True}, "reason", "reason_required", "a forced release must say why"),
    (ReturnUnits, {"force": 1}, "force", "force_not_boolean", "must be True or False"),
    (ReturnUnits, {"force": True}, "reason", "reason_required", "a forced return must say why"),
    (ReturnToPool, {"id": "~p"}, "pool", "pool_reserved", "ids that begin with ~ are reserved"),
    (ReturnToPool, {"id": ""}, "pool", "pool_required", "must not be empty or blank"),
    (ReturnToPool, {"quantity": 0}, "quantity", "quantity_out_of_range", BOUNDS.format(1)),
    (ReturnToPool, {"quantity": BIG}, "quantity", "quantity_out_of_range", BOUNDS.format(1)),
    (ReturnToPool, {"quantity": True}, "quantity", "quantity_not_whole", NUMBER + "bool"),
    (ReturnToPool, {"force": "yes"}, "force", "force_not_boolean", "must be True or False"),
    (ReturnToPool, {"reason": None}, "reason", "reason_required", "a forced return must say why"),
    (ReturnToPool, {"force": False}, "force", "force_required",
     "a return by pool asks for nobody's token: say force=True, and why"),
    (PutRecord, {"kind": "~k"}, "kind", "kind_reserved", "kinds that begin with ~ are reserved"),
    (PutRecord, {"kind": "a/b"}, "kind", "kind_malformed", "must not contain /"),
    (ResizePool, {"if_version": 0}, "if_version", "if_version_out_of_range", BOUNDS.format(1)),
    (PutRecord, {"if_version": -1}, "if_version", "if_version_out_of_range", BOUNDS.format(0)),
    (PutRecord, {"if_version": BIG}, "if_version", "if_version_out_of_range", BOUNDS.format(0)),
    (PutRecord, {"if_version": True}, "if_version", "if_version_not_whole", NUMBER + "bool"),
    (PutRecord, {"body": 5}, "body", "body_too_large", "must be JSON text of at most 262144 bytes"),
    (PutRecord, {"body": f'"{"x" * 262_143}"'}, "body", "body_too_large", "must be JSON text of at most 262144 bytes"),
    (PutRecord, {"body": f'"{"é" * 131_072}"'}, "body", "body_too_large", "must be JSON text of at most 262144 bytes"),
    *(
        (PutRecord, {"body": bad}, "body", "body_not_json", "must be JSON text")
        for bad in ("", "{", "nope", "NaN", '"\ud800"', "[" * 100_000)
    ),
    (Sweep, {"limit": 0}, "limit", "limit_out_of_range", "must lie between 1 and 10000"),
    (Sweep, {"limit": 10_001}, "limit", "limit_out_of_range", "must lie between 1 and 10000"),
    (Sweep, {"limit": 1.0}, "limit", "limit_not_whole", NUMBER + "float"),
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


@pytest.mark.parametrize(
    ("limits", "slots", "words"),
    [
        (Limits(), 0, "must be more than 0"),
        (Limits(), -5, "must be more than 0"),
        (Limits(min_ttl=2), 1, "must be at least 0.002ms (min_ttl)"),
        (Limits(min_ttl=1_500_000), 1, "must be at least 1500ms (min_ttl)"),
        (Limits(), 30 * 86_400_000_000 + 1, "must be at most 30d (max_ttl)"),
    ],
)
def test_spans_are_told_for_people(limits: Limits, slots: int, words: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check(PlaceHold(**GOOD[PlaceHold] | {"ttl_slots": slots}), limits)
    assert str(caught.value) == f"holdkit: ttl: {words}"


def test_no_command() -> None:
    with pytest.raises(InvalidRequest, match=r"^holdkit: command: dict is not a command$") as caught:
        check({"id": "p"}, LIMITS)  # type: ignore[arg-type]
    assert (caught.value.field, caught.value.code) == ("command", "command_unknown")


BOUNDARIES: list[tuple[type[Any], dict[str, Any]]] = [
    *((command, {"op": "x" * 255, "actor": "x" * 1024, "tenant": "x" * 64}) for command in GOOD),
    *((command, {"correlation_id": "x" * 1024, "reason": "x" * 1024}) for command in GOOD),
    *((command, {"token": "x" * 512}) for command in OWNED),
    *((command, {"entity": "x" * 256}) for command in ENTITIES),
    *((command, {"id": "x" * 512, "total": 2**53 - 1}) for command in POOLS),
    *((command, {"total": 0}) for command in POOLS),
    *((command, {"id": HOLD}) for command in BIRTHS),
    *((command, {"metadata": {"a": "x" * 16_376}}) for command in BIRTHS),
    *((command, {"metadata": {"a": "é" * 8_188}}) for command in BIRTHS),
    *((command, {"metadata": deep(32)}) for command in BIRTHS),
    *(
        (command, {"metadata": {"a": [1, -1.5, None, True, "x\n", 2**63 - 1, -(2**63) + 1, (1,)]}})
        for command in BIRTHS
    ),
    *((command, legs(Leg("x" * 512, 2**53 - 1, 0), Leg("é", 1, 2**53 - 1), Leg("a b"))) for command in BIRTHS),
    *((command, {"quantity": 1}) for command in AMOUNTS),
    *((command, {"quantity": 2**53 - 1}) for command in AMOUNTS),
    *((command, {"quantity": {"p": 0, "x" * 512: 2**53 - 1}}) for command in AMOUNTS),
    *((command, {"reason": Word.ONE, "op": Word.ONE}) for command in GOOD),
    *((command, {"metadata": {"a": nested(31)}}) for command in BIRTHS),
    (CreatePool, {"exist_ok": True}),
    (PlaceHold, {"ttl_slots": 2}),
    (PlaceHold, {"ttl_slots": 3_000_000}),
    (PlaceHold, {"ttl_slots": None, "deadline": -5}),  # the ladder refuses it, not the form
    (ExtendHold, {"by_slots": 2}),
    (ExtendHold, {"by_slots": None, "ttl_slots": 3_000_000}),
    (ExtendHold, {"by_slots": None, "until": 0}),
    (ConfirmHold, {"overage": "if_available", "keep_rest": True}),
    (ConfirmHold, {"overage": "up_to_available"}),
    (ConfirmHold, {"force": True, "reason": "why"}),
    (ExtendHold, {"force": True, "reason": "why"}),
    (ReleaseHold, {"force": True, "reason": "why"}),
    (ReturnUnits, {"force": True, "reason": "why"}),
    (ReturnToPool, {"quantity": 2**53 - 1}),
    (PutRecord, {"kind": "k" * 64, "id": "a/b" + "x" * 509, "if_version": 0}),
    (PutRecord, {"body": None, "if_version": 2**53 - 1}),
    (ResizePool, {"if_version": 1}),
    (ResizePool, {"if_version": 2**53 - 1}),
    (PutRecord, {"body": f'"{"x" * 262_142}"'}),
    (Sweep, {"limit": 1}),
    (Sweep, {"limit": 10_000}),
]


@pytest.mark.parametrize(("command", "fields"), BOUNDARIES)
def test_the_bounds_themselves_are_allowed(command: type[Any], fields: dict[str, Any]) -> None:
    check(command(**GOOD[command] | fields), LIMITS)


FACES: list[tuple[type[Any], dict[str, Any]]] = [
    (CreatePool, {"id": "~p"}),
    (ResizePool, {"id": "~p"}),
    (ReturnToPool, {"id": "~p"}),
    (PlaceHold, legs(Leg("~p"))),
    (PlaceHold, legs(Leg("p"), Leg("~p")) | {"ttl_slots": None}),  # without a deadline: items and sagas
    (Consume, legs(Leg("~p"))),
    (PutRecord, {"kind": "~k"}),
    (ExtendHold, {"by_slots": None, "forever": True}),
    *((command, {"trusted": True}) for command in VOUCHED),
    (ConfirmHold, {"others_as_held": True, "quantity": {"p": 0}}),
]


@pytest.mark.parametrize(("command", "fields"), FACES)
def test_reserved_names_are_for_the_faces(command: type[Any], fields: dict[str, Any]) -> None:
    made = command(**GOOD[command] | fields)
    check(made, LIMITS, faces=True)
    with pytest.raises(InvalidRequest):
        check(made, LIMITS)


def test_a_tilde_elsewhere_is_nothing_special() -> None:
    check(CreatePool(id="p~", total=1), LIMITS)


def test_secrets_are_never_echoed() -> None:
    secret = "tok-\x00-secret"
    with pytest.raises(InvalidRequest) as caught:
        check(ConfirmHold(id=HOLD, token=secret), LIMITS)
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidRequest) as caught:
        check(PlaceHold(legs=(Leg("p"),), ttl_slots=5, token=secret + "x" * 600), LIMITS)
    assert "secret" not in str(caught.value)
