"""What may follow `->`, and whether an answer is that. Knows the fields of answers, and nothing about statements or
engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct

from ... import Claim, Hold, InvalidRequest, JournalEntry, Limits, Pool, Refused, State
from ...admin import Record
from ...errors import LifetimeExceeded
from ...journal import Action
from ...kernel.arguments import span
from ...kernel.times import moment
from ...reports import Reason, SweepReport
from . import values

Converters: TypeAlias = Mapping[str, Callable[[str], Any]]

LEG: Final[Converters] = dict.fromkeys(("quantity", "held", "confirmed", "returned", "uncovered"), values.whole)
MOVED: Final[Converters] = dict.fromkeys(
    ("total", "held", "consumed", "loose", "waiting", "children", "used"), values.whole
)
HOLD: Final[Converters] = {
    **LEG,
    **dict.fromkeys(("deadline", "joined_slot", "held_slot", "ended_slot"), values.slot),
    **dict.fromkeys(
        ("entity", "account", "reason", "actor", "correlation_id", "tenant", "token", "ticket"), values.text
    ),
    **dict.fromkeys(("fence", "version"), values.whole),
    "number": values.scalar,
    "metadata": values.document,
}
_SLOTS: Final = {"joined_slot": "joined_at", "held_slot": "held_at", "ended_slot": "ended_at"}
"""The stored fields behind the names that stories have for times."""
_SECRETS: Final = ("token", "ticket")
POOL: Final[Converters] = {
    **dict.fromkeys(("total", "held", "consumed", "available", "loose", "fence", "version"), values.whole),
    **dict.fromkeys(("waiting", "bookable", "children"), values.whole),
    "per_account": values.scalar,
    "line": values.text,
    "over": values.scalar,
    "archived": values.scalar,
}
RECORD: Final[Converters] = {"version": values.whole, "body": values.document}
SWEEP: Final[Converters] = {
    **dict.fromkeys(("holds", "tenants"), values.listed_or_none),
    "expired": values.whole,
    "more": values.scalar,
    "scanned_at": values.slot,
}
ENTRY: Final[Converters] = {
    **dict.fromkeys(("actor", "reason", "correlation_id", "op", "tenant", "was"), values.text),
    "forced": values.scalar,
    "at": values.slot,
}
REFUSAL: Final[Converters] = {
    **dict.fromkeys(("requested", "available", "total", "loose", "consumed"), values.whole),
    **dict.fromkeys(("used", "limit", "waiting", "number", "left", "in_use", "version"), values.whole),
    **dict.fromkeys(("now", "deadline", "max_lifetime"), values.slot),
    "subject": values.text,
    "short": values.shortfalls,
    "remaining": values.scalar,
    "state": values.text,
    "taken": values.listed,
    "key": values.text,
    "transient": values.scalar,
    "retry_after": values.scalar,
}
INVALID: Final[Converters] = {"field": values.text, "code": values.text}


CLAIM: Final[Converters] = {
    **dict.fromkeys(("id", "key", "type", "value", "entity", "hold", "tenant"), values.text),
    **dict.fromkeys(("deadline", "held_at", "ended_at"), values.slot),
    "taken": values.scalar,
    "combined": values.scalar,
    "fence": values.whole,
}
REASONS: Final = frozenset({*Reason, "already_claimed", "items_taken", "part_of_hold", "section_not_found"})
"""Those of the core and those of the faces."""


class Kind(Struct, frozen=True):
    """A kind of answer: the words it may have, its fields, and its fields per pool."""

    arguments: tuple[str, ...]
    fields: Converters
    by_pool: Converters = {}


HOLDS: Final = Kind(tuple(State), HOLD, LEG)
POOLS: Final = Kind(("done",), POOL)
RETURNS: Final = Kind((*State, "done"), {**POOL, **HOLD}, LEG)
SEEN_POOL: Final = Kind(("",), POOL)
RECORDS: Final = Kind(("done",), RECORD)
SEEN_RECORD: Final = Kind(("", "nothing"), RECORD)
SWEEPS: Final = Kind(("done",), SWEEP)
ENTRIES: Final = Kind(tuple(Action), ENTRY, MOVED)
LIMITS: Final = Kind(("done",), {"version": values.whole})
BATCHES: Final = Kind((), {})
CLAIMS: Final = Kind((*State, "nothing"), CLAIM)
OK: Final = Kind(("ok",), {})


class Expected(Struct, frozen=True):
    """The expected answer."""

    word: str
    replayed: bool
    fields: dict[str, Any]


def expected(kind: Kind, after_arrow: list[str]) -> Expected:
    """Read an expectation; `ValueError` if any of it is unknown."""
    bare = [token for token in after_arrow if not is_option(token)]
    replayed = "replayed" in bare[1:]
    if len(bare) > 1 + replayed:
        raise ValueError(f"expects several answers: {' '.join(bare)}")
    word = bare[0] if bare else ""
    if word in REASONS:
        return Expected(word, replayed, _fields(after_arrow, REFUSAL, {}))
    if word == "invalid":
        return Expected(word, replayed, _fields(after_arrow, INVALID, {}))
    if word not in kind.arguments:
        raise ValueError(
            f"{word or 'nothing'!r} is no answer to this; known are {', '.join(kind.arguments)}, and reasons"
        )
    return Expected(word, replayed, _fields(after_arrow, kind.fields, kind.by_pool))


def is_option(token: str) -> bool:
    """Return whether a token is `name=value`."""
    return "=" in token and token[0] not in "='"


def _fields(after_arrow: list[str], known: Converters, by_pool: Converters) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for token in filter(is_option, after_arrow):
        name, _, raw = token.partition("=")
        pool, _, field = name.rpartition(".")
        convert = by_pool.get(field) if pool else known.get(name)
        if convert is None:
            raise ValueError(f"an answer like this has no {name!r}")
        if name in found:
            raise ValueError(f"{name!r} is expected twice")
        found[name] = convert(raw)
    return found


def word_of(answer: object) -> str:
    """Return the one word of an answer."""
    if isinstance(answer, Hold | Claim):
        return str(answer.state)
    if isinstance(answer, JournalEntry):
        return str(answer.action)
    if isinstance(answer, Refused):
        return answer.reason
    if isinstance(answer, InvalidRequest):
        return "invalid"
    return type(answer).__name__ if isinstance(answer, Exception) else "done"


def facts_of(answer: object) -> dict[str, Any]:
    """Return every field of an answer that a story may expect."""
    if isinstance(answer, Hold):
        return _hold_facts(answer)
    if isinstance(answer, Claim):
        row = answer.raw.hold
        times = {name: None if row is None else getattr(row, name) for name in ("deadline", "held_at", "ended_at")}
        return {name: times[name] if name in times else getattr(answer, name) for name in CLAIM}
    if isinstance(answer, JournalEntry):
        return _entry_facts(answer)
    if isinstance(answer, Refused):
        short = tuple((each.pool, each.requested, each.available) for each in answer.details.get("shortfalls", ()))
        times = {name: moment(value) for name, value in answer.details.items() if isinstance(value, datetime)}
        if isinstance(answer, LifetimeExceeded):
            times["max_lifetime"] = span(answer.max_lifetime, "max_lifetime")
        return {**answer.details, **times, "short": short, "transient": answer.transient}
    if isinstance(answer, InvalidRequest):
        return {"field": answer.field, "code": answer.code}
    if isinstance(answer, Pool):
        return {name: getattr(answer.raw, name) for name in POOL}
    if isinstance(answer, Record):
        return {"version": answer.version, "body": msgspec.json.decode(answer.body)}
    if isinstance(answer, Limits):
        return {"version": answer.version}
    if isinstance(answer, SweepReport):
        return {**{name: getattr(answer, name) for name in SWEEP}, "scanned_at": moment(answer.scanned_at)}
    return {}


def _hold_facts(hold: Hold) -> dict[str, Any]:
    facts = {
        name: getattr(hold.raw, _SLOTS.get(name, name)) for name in HOLD if name not in (*LEG, *_SECRETS, "metadata")
    }
    facts |= {"metadata": hold.metadata, "token": hold.token, "ticket": None if hold.token is None else hold.ticket}
    for leg in hold.legs:
        counters = {name: getattr(leg, name) for name in LEG if name != "uncovered"}
        counters["uncovered"] = hold.uncovered.get(leg.name, 0)
        facts |= {f"{leg.pool}.{name}": value for name, value in counters.items()}
        if len(hold.legs) == 1:
            facts |= counters | {"uncovered": sum(hold.uncovered.values())}  # of budgets it is by budget
    return facts


def _entry_facts(entry: JournalEntry) -> dict[str, Any]:
    facts = {name: getattr(entry, name) for name in ENTRY if name not in ("at", "was")}
    facts |= {"at": entry.raw.slot, "was": entry.before.get("state")}
    for effect in entry.raw.entry.effects:
        facts |= {f"{effect.pool.id}.{name}": getattr(effect, name) for name in MOVED}
    return facts


def differences(expected: Expected, answer: object) -> list[str]:
    """Return how the answer differs from what was expected; empty if it does not."""
    word = word_of(answer)
    if word != expected.word and (expected.word or isinstance(answer, Exception)):
        return [f"expected {expected.word or 'an answer'}, got {word}: {answer}"]
    found = []
    replayed = bool(getattr(answer, "replayed", False))
    if replayed != expected.replayed:
        found.append(f"expected {'a' if expected.replayed else 'no'} replayed answer")
    facts = facts_of(answer)
    for name, value in expected.fields.items():
        if name not in facts:
            found.append(f"{name}: expected {value!r}, but the answer has only {', '.join(sorted(facts))}")
        elif facts[name] != value or isinstance(facts[name], bool) != isinstance(value, bool):
            found.append(f"{name}: expected {value!r}, got {facts[name]!r}")
    return found
