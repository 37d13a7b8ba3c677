"""What callers do, as generators: each yields one attempt at a time and is sent its answer. Whoever drives a generator calls
the kernel, sync or async, and keeps the ledger; so every kind of caller is written once.

A call may take several attempts. Each attempt has a correlation id of its own, so that the journal tells
which attempt had the effect.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from itertools import count
from typing import Any, Final, TypeAlias
from uuid import UUID

from msgspec import Struct

import holdkit
from tests.faults.campaign.ledger import Said, correlation

WIDE, SIDE, NARROW = "wide", "side", "narrow"
"""Two pools that are never short, in different lanes, and one for which callers compete."""
TOTALS: Final = {WIDE: 10**9, SIDE: 10**9, NARROW: 1}
BRIEF: Final = "2s"
"""How long a unit of the narrow pool is held at most: a caller that died leaves it to the others."""


class Attempt(Struct, frozen=True):
    """One call of the kernel's: `verb` names the method, with a dot for a face's."""

    caller: str
    call: int
    attempt: int
    verb: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = {}

    @property
    def key(self) -> str:
        return correlation(self.caller, self.call, self.attempt)


class Answer(Struct, frozen=True):
    """The answer that the caller got; `thing` is the hold or claim, if the call returned one."""

    said: Said
    thing: Any = None


Habit: TypeAlias = Generator[Attempt, Answer, None]
Call: TypeAlias = Generator[Attempt, Answer, Answer]


def asked_until_settled(caller: str, call: int, verb: str, *arguments: Any, **options: Any) -> Call:
    """Repeat a call that has a retry key of any kind until it is done or refused. Now and then repeat it once more, like a caller
    who has lost the answer."""
    attempt = 0
    while (answer := (yield Attempt(caller, call, attempt, verb, arguments, options))).said in ("none", "unknown"):
        attempt += 1
    if call % 7 == 0:
        yield Attempt(caller, call, attempt + 1, verb, arguments, options)
    return answer


def asked_once(caller: str, call: int, verb: str, *arguments: Any, **options: Any) -> Call:
    """Make a call without a retry key once: if its outcome is unknown, it stays unknown."""
    return (yield Attempt(caller, call, 0, verb, arguments, options))


def with_operation_ids(caller: str, chance: random.Random) -> Habit:
    """Every call is repeated under its operation id until it is settled. Holds of one pool and of two, extended and ended."""
    numbers = count()

    def settled(verb: str, *arguments: Any, **options: Any) -> Call:
        call = next(numbers)
        return asked_until_settled(caller, call, verb, *arguments, **options, op=f"{caller}-{call}")

    while True:
        what, ttl = chance.choice([({WIDE: 1}, "1h"), ({WIDE: 1, SIDE: 2}, "1h"), ({NARROW: 1}, BRIEF)])
        scarce = NARROW in what
        if not scarce and chance.random() < 0.2:
            yield from settled("consume", what)
            continue
        held = yield from settled("hold", what, ttl=ttl)
        if held.said != "done" or (not scarce and chance.random() < 0.2):
            continue
        if chance.random() < 0.3:
            yield from settled("extend", held.thing, by=1)
        yield from settled("release" if scarce else chance.choice(["confirm", "release"]), held.thing)


def without_operation_ids(caller: str, chance: random.Random) -> Habit:
    """A hold that is unknown stays so. A confirm or release of the hold is repeated: `already_confirmed` settles it."""
    numbers = count()
    while True:
        if chance.random() < 0.3:
            yield from asked_once(caller, next(numbers), "consume", WIDE, 1)
            continue
        held = yield from asked_once(caller, next(numbers), "hold", WIDE, 1, ttl="1h")
        if held.said == "done":
            verb = chance.choice(["confirm", "release"])
            yield from asked_until_settled(caller, next(numbers), verb, held.thing)


def by_hold_id(caller: str, chance: random.Random) -> Habit:
    """The caller chooses the hold's id and repeats the call: `hold_exists` settles it."""
    numbers = count()
    while True:
        id, token = UUID(int=chance.getrandbits(112) << 16), f"owner-{chance.getrandbits(64)}"
        held = yield from asked_until_settled(caller, next(numbers), "hold", WIDE, 1, ttl="1h", id=id, token=token)
        if held.said in ("done", "settled"):
            verb = chance.choice(["confirm", "release"])
            yield from asked_until_settled(caller, next(numbers), verb, holdkit.ticket(id, token))


def with_claims(caller: str, chance: random.Random) -> Habit:
    """Claims a key, asking again as the same owner; confirms it or lets it go."""
    numbers = count()
    while True:
        call, token = next(numbers), f"owner-{chance.getrandbits(64)}"
        claim = yield from asked_until_settled(
            caller, call, "claims.hold", "key", f"{caller}-{call}", ttl="1h", token=token
        )
        if claim.said != "done":
            continue
        if chance.random() < 0.5:
            yield from asked_until_settled(caller, next(numbers), "confirm", claim.thing, entity="order:1")
        else:
            yield from asked_until_settled(caller, next(numbers), "release", claim.thing)


HABITS: Final[Mapping[str, Callable[[str, random.Random], Habit]]] = {
    habit.__name__: habit for habit in (with_operation_ids, without_operation_ids, by_hold_id, with_claims)
}

EFFECTS: Final = {
    "hold": "hold.held",
    "consume": "hold.held",
    "claims.hold": "hold.held",
    "extend": "hold.extended",
    "confirm": "hold.confirmed",
    "release": "hold.released",
    "admin.resize_pool": "pool.resized",
    "admin.change_limits": "limits.changed",
}
"""The journal entry that each verb promises, once."""

SETTLES: Final = {
    "hold": "hold_exists",
    "confirm": "already_confirmed",
    "release": "already_released",
}
"""The refusal that tells a repeated call that it has happened."""
