"""Arguments in one normal form: intervals, deadlines, legs and ids can be written in several ways. Raises `InvalidRequest`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from msgspec.structs import replace

from ..core.bounds import MOST_LEGS
from ..core.codec import is_ticket, read_ticket
from ..core.codec import ticket as ticket_of
from ..core.commands import (
    Amounts,
    AnyCommand,
    ConfirmHold,
    ExtendHold,
    JoinLine,
    PlaceHold,
    ReleaseHold,
    ReturnUnits,
    Ttl,
)
from ..core.face_legs import FaceLeg
from ..core.keyed import leg_name
from ..core.model import Leg, Slot
from ..core.validation import hold_id as check_hold_id
from ..core.validation import invalid
from ..core.validation import text as check_text
from ..core.values import MAX_TOKEN
from ..errors import InvalidRequest
from .one_line import amounts, line
from .times import moment


class Legs(tuple[Leg, ...]):
    """Several legs that a face has made, to be used among others."""

    __slots__ = ()

    def __repr__(self) -> str:
        named = [(leg.label or leg_name(leg.pool), str(leg.quantity)) for leg in self if isinstance(leg, FaceLeg)]
        return line("Legs", amounts(named))


OneLeg: TypeAlias = "str | tuple[str, int] | Mapping[str, int] | Leg | Legs"
What: TypeAlias = "OneLeg | Iterable[OneLeg]"
"""A pool id (with a quantity), a pair of pool id and quantity, a mapping of pool to quantity, a leg, or a list of all
these; `holdkit.claim`, `holdkit.items`, and `legs` of a budget or calendar give legs."""

Part: TypeAlias = "Amounts | tuple[str, int] | Leg | Legs | Iterable[OneLeg]"
"""How much of a hold: a number for its one leg, a pair of pool id and quantity, a mapping by pool, the legs
themselves, or None for all of it."""

_spelled: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\s*", re.ASCII)
_UNITS: Final = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
_LONGEST: Final = 2**53  # microseconds that a float still counts exactly: 285 years


def span(value: Ttl, field: str = "ttl") -> Slot:
    """An interval as slots: seconds, a timedelta, or text such as "90s", "5m", "2h"."""
    if type(value) is int:
        return _bounded(value * 1_000_000, field)
    if isinstance(value, str):
        slots = _slots_of(value) if len(value) <= 32 else None
        if slots is None:
            raise invalid(field, f"{field}_malformed", "must look like '90s', '5m', '2h', '1d' or '250ms'")
        return slots if slots <= _LONGEST else _bounded(slots, field)
    if isinstance(value, timedelta):
        return (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
    if isinstance(value, float) and isfinite(value):
        return _bounded(round(max(-1e12, min(value, 1e12)) * 1e6), field)
    given = "not infinity or NaN" if isinstance(value, float) else f"not {type(value).__name__}"
    raise invalid(field, f"{field}_malformed", f"must be seconds, a timedelta, or text such as '5m', {given}")


@lru_cache(maxsize=256)
def _slots_of(text: str) -> int | None:
    """The slots of an interval such as "5m"; None if it is malformed. An application uses the same few again and again."""
    match = _spelled.fullmatch(text)
    if match is None:
        return None
    number, unit = match[1], _UNITS[match[2]]
    return int(number) * unit if number.isdigit() else round(float(number) * unit)


def _bounded(slots: int, field: str) -> Slot:
    if slots > _LONGEST:
        raise invalid(field, f"{field}_too_long", "is longer than any clock here can count")
    if slots < -_LONGEST:
        raise invalid(field, f"{field}_too_short", "must be above 0")
    return slots


def legs_of(what: Any, quantity: int | None) -> tuple[Leg, ...]:
    """The legs behind `what`: the same everywhere in the API. How many there may be is for the limits to say; more than
    `MOST_LEGS` are not even counted."""
    if isinstance(what, str):
        return (Leg(what, 1 if quantity is None else quantity),)
    if isinstance(what, Leg) or _is_pair(what):
        what = [what]
    if quantity is not None:
        raise invalid("quantity", "quantity_ambiguous", "goes with a single pool id; name amounts in `what` instead")
    if isinstance(what, Mapping):
        what = what.items()
    try:
        legs: list[Leg] = []
        for item in islice(what, MOST_LEGS + 1):
            if isinstance(item, Legs):
                legs.extend(item)
            elif isinstance(item, Mapping):
                legs.extend([_spread(*pair) for pair in islice(item.items(), MOST_LEGS + 1)])
            else:
                legs.append(_leg(item))
    except TypeError:
        raise invalid("what", "what_malformed", "must be a pool id, a mapping, or a list of legs") from None
    if len(legs) > MOST_LEGS:
        raise invalid("legs", "legs_too_many", f"at most {MOST_LEGS} legs can be asked for at once")
    return tuple(legs)


def _is_pair(what: Any) -> bool:
    """Whether this is a pool id with its quantity, and no list of two pools."""
    return type(what) is tuple and len(what) == 2 and isinstance(what[0], str) and type(what[1]) is int


def _leg(item: Any) -> Leg:
    """A leg from a leg, from a pool id (one unit of it), or from a pair of pool id and quantity."""
    if isinstance(item, Leg):
        return item
    return Leg(item) if isinstance(item, str) else _spread(*item)


def _spread(pool: str, quantity: int = 1, create_with_total: int | None = None) -> Leg:
    """A leg from the items of a tuple."""
    return Leg(pool, quantity, create_with_total)


def combined(command: AnyCommand) -> bool:
    """Whether faces have made some of the legs. The others must not use reserved names, and there must be a deadline."""
    legs: Any = command.legs if command.names == "legs" else ()
    if not isinstance(legs, tuple) or (len(legs) == 1 and type(legs[0]) is Leg) or FaceLeg not in map(type, legs):
        return False
    for leg in legs:
        if type(leg) is FaceLeg or not isinstance(leg, Leg):
            continue  # a face's leg, or not a leg at all, which the check that follows refuses
        if str(leg.pool).startswith("~"):
            raise invalid("pool", "pool_reserved", "ids that begin with ~ are reserved")
    if isinstance(command, PlaceHold) and command.ttl_slots is None and command.deadline is None:
        raise invalid("ttl", "ttl_required", "a hold needs a ttl or a deadline")
    return True


def original_of(command: AnyCommand) -> AnyCommand | None:
    """The command as the caller wrote it, if faces have chosen some of its pools by the present time."""
    legs: Any = command.legs if command.names == "legs" else ()
    if not isinstance(legs, tuple) or FaceLeg not in map(type, legs):
        return None
    written = tuple([leg.asked or leg if isinstance(leg, FaceLeg) else leg for leg in legs])
    return None if written == legs else replace(command, legs=written)


def amounts_of(quantity: Any) -> Any:
    """Return how much of a hold a caller means: None, a number, or a dict by pool. Anything else is passed on, for
    validation to refuse.

    A mapping is copied, so that the caller cannot change it later."""
    if quantity is None or type(quantity) is int:
        return quantity
    if isinstance(quantity, Mapping):
        return dict(quantity)
    if not isinstance(quantity, Leg | list | tuple):
        return quantity
    try:
        legs = legs_of(quantity, None)
    except InvalidRequest:  # it speaks of `what`
        return quantity
    amounts = {leg.pool: leg.quantity for leg in legs}
    if len(amounts) < len(legs):
        raise invalid("quantity", "pool_twice", "names a pool twice")
    return amounts


def hold_id(value: Any) -> Any:
    """An id in its one form, 32 hex digits; anything else is passed on, for validation to refuse."""
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, str) and len(value) == 36:
        return value.replace("-", "").lower()
    return value.lower() if isinstance(value, str) else value


def ticket(id: str | UUID, token: str) -> str:
    """Return the ticket of a hold: the one text that carries its id and token, for another process. Keep it secret, like the token.

    `Hold.ticket` is the same text. This is for an application that chose the token and stored the id.
    """
    check_text(token, "token", MAX_TOKEN)
    return ticket_of(check_hold_id(hold_id(id), "id"), token)


class Presented(NamedTuple):
    """A hold's id with the token that a caller presented, perhaps none: what interfaces other than Python's pass to the verbs."""

    id: str
    token: str | None


def reference(value: Any, token: str | None) -> tuple[Any, str | None]:
    """Return id and token of a hold that is given as a `Hold`, a ticket, or an id, perhaps with a token beside it."""
    if isinstance(value, str):
        if is_ticket(value):
            parts = read_ticket(value)
            if parts is None:
                raise invalid(
                    "hold",
                    "ticket_malformed",
                    "the ticket is cut short or damaged: use the whole text that was given when the hold was placed",
                )
            named = check_hold_id(hold_id(parts[0]), "hold")
            if token is not None and token != parts[1]:
                raise invalid("token", "token_ambiguous", "the ticket carries another token: give one of the two")
            return named, parts[1]
        return check_hold_id(hold_id(value), "hold"), token
    if isinstance(value, UUID):
        return value.hex, token
    if hasattr(value, "combined"):
        raise invalid(
            "hold",
            "hold_is_claim",
            "is a claim, which is only read: pass the Hold that claims.hold returned, or its ticket",
        )
    if hasattr(value, "id") and hasattr(value, "token"):
        return value.id, value.token if token is None else token
    raise invalid("hold", "hold_malformed", "must be a Hold or its ticket")


def presented(value: Any, verb: str) -> tuple[Any, str | None]:
    """Return id and token of a hold that a verb ends: a `Hold`, or its ticket. An id alone proves nothing."""
    try:
        id, token = reference(value, None)
    except InvalidRequest as wrong:
        if wrong.code == "hold_malformed":  # no id either: an id would not do
            raise invalid("hold", "hold_malformed", "must be a Hold or its ticket") from None
        raise
    if token is None and isinstance(value, str | UUID):
        raise invalid(
            "hold",
            "ticket_required",
            f"an id alone ends no hold: pass the Hold, its ticket, or holdkit.ticket(id, token); an operator uses hk.admin.{verb}",
        )
    return id, token


def present(value: Any, token: str | None) -> Any:
    """Return what a verb takes for a hold that another interface than Python's names: a ticket, or an id, perhaps with a token."""
    return Presented(*reference(value, token))


def normalise(command: AnyCommand) -> AnyCommand:
    """A command as the core wants it: intervals and deadlines as slots, ids in their one form.

    One change at a time: most commands need only one, and collecting changes in a dict takes longer.
    """
    if (
        type(command) is PlaceHold
        and type(command.legs) is tuple
        and len(command.legs) == 1
        and type(command.legs[0]) is Leg
    ):
        command = _in_slots(command)  # the usual case
        return command if command.id is None else replace(command, id=hold_id(command.id))
    if command.names == "legs":
        legs: object = command.legs
        if type(legs) is not tuple or Legs in map(type, legs):
            command = replace(command, legs=_flat(legs))
    elif isinstance(command, _AMOUNTS) and command.quantity is not None:
        command = replace(command, quantity=amounts_of(command.quantity))
    if isinstance(command, _TIMED):
        command = _in_slots(command)
    if (command.names == "legs" or command.names == "hold") and command.id is not None:
        command = replace(command, id=hold_id(command.id))
    return command


def _in_slots(command: PlaceHold | JoinLine | ExtendHold) -> PlaceHold | JoinLine | ExtendHold:
    """The command with every interval and deadline as slots."""
    if command.ttl is not None:
        command = replace(command, ttl=None, ttl_slots=span(command.ttl))
    if isinstance(command, PlaceHold):
        if command.deadline is not None:
            command = replace(command, deadline=moment(command.deadline))
    elif isinstance(command, JoinLine):
        if command.offer_ttl is not None:
            command = replace(command, offer_ttl=None, offer_slots=span(command.offer_ttl, "offer_ttl"))
    else:
        if command.by is not None:
            command = replace(command, by=None, by_slots=span(command.by, "by"))
        if command.until is not None:
            command = replace(command, until=moment(command.until, "until"))
    return command


def _flat(legs: Any) -> Any:
    """One tuple of all legs. What is not a leg, or no list of legs at all, is passed on, for validation to refuse."""
    if not isinstance(legs, list | tuple):
        return legs
    return tuple([leg for one in legs for leg in (one if isinstance(one, Legs) else (one,))])


_TIMED: Final = (PlaceHold, JoinLine, ExtendHold)
_AMOUNTS: Final = (ConfirmHold, ReleaseHold, ReturnUnits)
