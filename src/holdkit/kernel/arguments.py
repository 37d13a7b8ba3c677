"""Convert the arguments of a call to the fields of a command. Raise `InvalidRequest`.

A call carries, beside its own arguments, who calls and why, an operation id and a transaction (`Call`); `context` sets what it inherits.
Intervals, legs and ids can be written in several ways, and have one normal form. Each is brought into it once, when the command is built.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from math import isfinite
from typing import Any, Final, NamedTuple, TypeAlias, TypedDict
from uuid import UUID

from msgspec import Struct

from ..core.bounds import MOST_LEGS
from ..core.codec import is_ticket, read_ticket
from ..core.codec import ticket as ticket_of
from ..core.commands import Amounts, Ttl
from ..core.face_legs import FaceLeg
from ..core.keyed import leg_name
from ..core.model import Leg, Slot
from ..core.validation import hold_id as check_hold_id
from ..core.validation import invalid
from ..core.validation import text as check_text
from ..core.values import MAX_TOKEN
from ..errors import InvalidRequest, UnknownArgument
from .one_line import amounts, line

KINDS: Final = ("user", "system", "job", "api_client", "anonymous")


class Actor(Struct, frozen=True):
    """The actor of a change: a kind, and an id where it has one. Its text form is ``user:7``."""

    kind: str
    id: str = ""

    @classmethod
    def user(cls, id: str) -> Actor:
        """Return the actor of a person."""
        return cls("user", id)

    @classmethod
    def system(cls) -> Actor:
        """Return the actor of Holdkit itself, or of the application's own machinery."""
        return cls("system")

    @classmethod
    def job(cls, name: str) -> Actor:
        """Return the actor of a scheduled job."""
        return cls("job", name)

    @classmethod
    def api_client(cls, id: str) -> Actor:
        """Return the actor of another program."""
        return cls("api_client", id)

    @classmethod
    def anonymous(cls) -> Actor:
        """Return the actor for calls that name none."""
        return cls("anonymous")

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}" if self.id else self.kind


def actor_text(actor: Actor | str | None) -> str | None:
    """Return an actor in its text form, or `InvalidRequest`."""
    if actor is None:
        return None
    said = str(actor) if isinstance(actor, Actor) else actor
    if not isinstance(said, str):
        raise InvalidRequest("must be an Actor or text such as 'user:7'", field="actor", code="actor_not_text")
    kind, _, name = said.partition(":")
    if kind not in KINDS or (not name and kind in ("user", "job", "api_client")):
        kinds = "user:…, job:…, api_client:…, system or anonymous"
        raise InvalidRequest(f"must be one of {kinds}", field="actor", code="actor_malformed")
    return said


def correlation_text(value: Any) -> Any:
    """Return a correlation id in its text form. What is neither text nor a UUID is passed on, for validation to refuse."""
    return str(value) if isinstance(value, UUID) else value


class Context(Struct, frozen=True):
    """The values that a call inherits where it gives none itself."""

    actor: str | None = None
    correlation_id: str | None = None
    reason: str | None = None
    timeout: float | None = None
    """Seconds that a whole call may take."""


_NOTHING: Final = Context()
inherited: Final[ContextVar[Context]] = ContextVar("holdkit_context", default=_NOTHING)
"""The context of this thread or task."""
current: Final = inherited.get


class Call(TypedDict, total=False):
    """The keyword arguments that every method takes beside its own (`**call`); `call_fields` turns them into fields of the command."""

    op: str | None
    """Operation id: the caller's retry key."""
    actor: Actor | str | None
    correlation_id: str | UUID | None
    reason: str | None
    tx: Any
    """The caller's own connection, inside the caller's own transaction."""


class CallWithoutReason(TypedDict, total=False):
    """The keyword arguments of `Call` for a method that has a `reason` of its own."""

    op: str | None
    actor: Actor | str | None
    correlation_id: str | UUID | None
    tx: Any


CallFields: TypeAlias = Callable[[Call], dict[str, Any]]
"""`call_fields` of one tenant: a face is given it by its kernel."""
KNOWN: Final = "op, actor, correlation_id, reason, tx"
_KNOWN: Final = frozenset(KNOWN.split(", "))


def context_of(call: Call) -> Context:
    """Return the call's own actor, correlation id and reason; a field that it leaves out is inherited."""
    outer = current()
    if not call:
        return outer
    if not _KNOWN.issuperset(call):
        unknown = min(set(call) - _KNOWN)
        message = f"is not an argument of this call; any call takes {KNOWN}"
        raise UnknownArgument(message, field=unknown, code="argument_unknown")
    actor, correlation_id, reason = call.get("actor"), call.get("correlation_id"), call.get("reason")
    if actor is None and correlation_id is None and reason is None:
        return outer
    return Context(
        outer.actor if actor is None else actor_text(actor),
        outer.correlation_id if correlation_id is None else correlation_text(correlation_id),
        outer.reason if reason is None else reason,
    )


def call_fields(call: Call, tenant: str) -> dict[str, Any]:
    """Return the fields that every command has: tenant, operation id, actor, correlation id, reason. (The commonest verbs pass them one by
    one: a struct takes three times as long to make from a dict.)"""
    said = context_of(call)
    return {
        "tenant": tenant,
        "op": call.get("op"),
        "actor": said.actor,
        "correlation_id": said.correlation_id,
        "reason": said.reason,
    }


def check_reason(reason: object) -> None:
    """Raise if a forced call does not say why."""
    if not isinstance(reason, str) or not reason.strip():
        raise invalid("reason", "reason_required", "a forced call must say why: the reason is journaled")


def forced_fields(reason: str, call: CallWithoutReason, fields_of: CallFields) -> dict[str, Any]:
    """Return the fields of `call_fields` for a call that passes a token or a limit: it must give a reason."""
    check_reason(reason)
    fields = Call(**call)  # type: ignore[typeddict-item]
    fields["reason"] = reason
    return {**fields_of(fields), "force": True}


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
    """Return an interval as slots: seconds, a timedelta, or text such as "90s", "5m", "2h"."""
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
    """Return the slots of an interval such as "5m"; None if it is malformed. An application uses the same few again and again."""
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
    """Return the legs behind `what`: the same everywhere in the API. How many there may be is for the limits to say;
    more than `MOST_LEGS` are not even counted."""
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
    """Return whether this is a pool id with its quantity, and no list of two pools."""
    return type(what) is tuple and len(what) == 2 and isinstance(what[0], str) and type(what[1]) is int


def _leg(item: Any) -> Leg:
    """Return a leg from a leg, from a pool id (one unit of it), or from a pair of pool id and quantity."""
    if isinstance(item, Leg):
        return item
    return Leg(item) if isinstance(item, str) else _spread(*item)


def _spread(pool: str, quantity: int = 1, create_with_total: int | None = None) -> Leg:
    """Return a leg from the items of a tuple."""
    return Leg(pool, quantity, create_with_total)


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
    """Return an id in its one form, 32 hex digits; anything else is passed on, for validation to refuse."""
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
    """Return the argument with which an interface other than Python's names a hold to a verb: a ticket, or an id, perhaps with a token."""
    return Presented(*reference(value, token))
