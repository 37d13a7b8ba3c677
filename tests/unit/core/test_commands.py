"""What is true of a command is said on the command; whatever has a table of commands has all of them in it."""

from __future__ import annotations

from typing import Any, Final, get_args

import pytest
from msgspec import structs

from holdkit.core.codec import fingerprint
from holdkit.core.commands import COMMANDS, AnyCommand, PlaceHold
from holdkit.core.decide import LADDERS
from holdkit.core.model import Leg
from holdkit.core.validation import _CHECKERS

GIVEN: Final[dict[str, Any]] = {
    "legs": (Leg("p"),),
    "id": "a",
    "total": 5,
    "per_account": 1,
    "quantity": 2,
    "kind": "k",
    "body": "{}",
    "changes": {},
    "account": "bob",
}
"""What commands cannot do without."""
BESIDE: Final = {"tenant", "op", "actor", "correlation_id", "reason", "client_id", "trace"}


def test_every_command_has_a_ladder_and_a_check_and_is_one_of_all() -> None:
    assert len(COMMANDS) > 15
    assert {*COMMANDS.values()} == {*_CHECKERS} == {*LADDERS, COMMANDS["sweep"]}
    assert all(issubclass(kind, get_args(AnyCommand)) for kind in COMMANDS.values())
    assert {verb: kind.names for verb, kind in COMMANDS.items() if "legs" in kind.__struct_fields__} == dict.fromkeys(
        ("hold", "consume", "join"), "legs"
    )


@pytest.mark.parametrize("verb", COMMANDS)
def test_a_retry_key_covers_all_but_who_asks_and_how(verb: str) -> None:
    kind: Any = COMMANDS[verb]
    command = kind(**{name: value for name, value in GIVEN.items() if name in kind.__struct_fields__})
    told = {*kind.__struct_fields__} - {"fingerprint", "legs"}
    free = {name for name in told if fingerprint(structs.replace(command, **{name: "another"})) == fingerprint(command)}
    assert free == (BESIDE | {"wait_slots", "offer_slots"} if verb == "hold" else BESIDE)


@pytest.mark.parametrize("verb", COMMANDS)
def test_no_command_prints_its_token(verb: str) -> None:
    kind = COMMANDS[verb]
    given = {name: value for name, value in GIVEN.items() if name in kind.__struct_fields__}
    if "token" in kind.__struct_fields__:
        given["token"] = "a-secret-of-sixteen"
    shown = repr(kind(**given))
    assert shown.startswith(f"{kind.__name__}(")
    assert "a-secret" not in shown
    assert "None" not in shown
    assert all(f"{name}=" in shown for name in given if name != "token")


def test_what_few_commands_do() -> None:
    assert {verb for verb, kind in COMMANDS.items() if kind.stores} == {"create_pool", "hold", "consume", "join"}
    assert {verb for verb, kind in COMMANDS.items() if kind.frees} == {"confirm", "release", "leave", "return"}
    assert {verb for verb, kind in COMMANDS.items() if kind.kept_by_hold} == {"confirm", "release"}


def test_a_command_prints_what_was_given() -> None:
    given = PlaceHold(legs=(Leg("p", 2),), ttl_slots=0, force=True, fingerprint="f" * 32)
    assert repr(given) == "PlaceHold(legs=(Leg(pool='p', quantity=2),), force=True, ttl_slots=0)"
