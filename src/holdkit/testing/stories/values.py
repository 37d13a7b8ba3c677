"""The values of a statement: how text becomes values, legs, amounts and lists. Strict; raises `ValueError` with the
reason."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from ... import Allowance, Leg
from ...core.model import MAX_SLOT, SECOND
from ...journal import Action

_TOKEN: Final = re.compile(r"(?:[^\s']|'[^']*')+")
_NUMBER: Final = re.compile(r"[+-]?\d+")
_LEG: Final = re.compile(r"(?P<pool>.+):(?P<quantity>[^:/]+)(?:/(?P<total>[+-]?\d+))?")
_SPECIAL: Final[dict[str, Any]] = {"none": None, "true": True, "false": False}


def tokens(statement: str) -> list[str]:
    """Split a line, without its comment, into tokens; text in quotes is one token."""
    found: list[str] = []
    end = 0
    for match in _TOKEN.finditer(statement):
        if statement[end : match.start()].strip():
            raise ValueError("a quote is not closed")
        end = match.end()
        if match[0].startswith("#"):
            return found
        found.append(match[0])
    if statement[end:].strip():
        raise ValueError("a quote is not closed")
    return found


def text(raw: str) -> str | None:
    """Read text; `none` is None, `x*513` repeats, `\\u0000` is that character."""
    if raw == "none":
        return None
    raw = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), raw.replace("'", ""))
    repeated = re.fullmatch(r"(.)\*(\d+)", raw)
    return repeated[1] * int(repeated[2]) if repeated else raw


def listed(raw: str) -> tuple[str, ...]:
    """Read names, separated by commas."""
    return tuple(plain(name) for name in raw.split(","))


def listed_or_none(raw: str) -> tuple[str, ...]:
    """Read names, separated by commas; `none` is an empty list."""
    return () if raw == "none" else listed(raw)


def plain(raw: str) -> str:
    """Read text that must not be `none`."""
    found = text(raw)
    if found is None:
        raise ValueError(f"{raw!r} is not a name")
    return found


def scalar(raw: str) -> Any:
    """Read a whole number, a fraction, true, false, none, nan; anything else is text."""
    if raw in _SPECIAL:
        return _SPECIAL[raw]
    if _NUMBER.fullmatch(raw):
        return int(raw)
    try:
        return float(raw)
    except ValueError:
        return text(raw)


def whole(raw: str) -> int:
    """Read a whole number."""
    if not _NUMBER.fullmatch(raw):
        raise ValueError(f"{raw!r} is not a whole number")
    return int(raw)


def slot(raw: str) -> int | None:
    """Read seconds as a slot, exact to the microsecond."""
    if raw == "none":
        return None
    try:
        slots = Decimal(raw) * SECOND
        if slots != int(slots):
            raise ValueError(f"{raw} s is not a whole number of microseconds")
    except (InvalidOperation, OverflowError):
        raise ValueError(f"{raw!r} is not a number of seconds") from None
    return int(slots)


def interval(raw: str) -> timedelta:
    """Read seconds as an interval, exact to the microsecond."""
    slots = slot(raw)
    if slots is None or abs(slots) > MAX_SLOT:
        raise ValueError(f"{raw!r} is no interval")
    return timedelta(microseconds=slots)


def document(raw: str) -> Any:
    """Read a JSON value in quotes; JSON has escapes of its own."""
    return None if raw == "none" else msgspec.json.decode(raw.replace("'", ""))


def identity(raw: str) -> str:
    """Read a hold's id: `@7` is 7 in 32 hex digits; anything else is passed on unchanged."""
    name = plain(raw.removeprefix("@"))
    short = raw.startswith("@") and re.fullmatch("[0-9a-f]{1,32}", name)
    return name.zfill(32) if short else name


def one_of(known: Iterable[str]) -> Callable[[str], str]:
    """Return a converter that accepts one of these words."""
    words = tuple(known)

    def converted(raw: str) -> str:
        if raw not in words:
            raise ValueError(f"{raw!r} is none of {', '.join(words)}")
        return raw

    return converted


def what(words: list[str]) -> tuple[Any, Any]:
    """Read `gpu 2` as pool and quantity, `gpu:2 cpu:1` as a mapping, and legs where a mapping cannot express it."""
    if not words:
        raise ValueError("names no pool")
    if len(words) == 2 and not isinstance(scalar(words[1]), str):
        return plain(words[0]), scalar(words[1])
    if len(words) == 1 and not _LEG.fullmatch(words[0]):
        return plain(words[0]), None
    legs = [_leg(word) for word in words]
    pools = {leg.pool for leg in legs}
    if len(pools) == len(legs) and all(leg.create_with_total is None for leg in legs):
        return {leg.pool: leg.quantity for leg in legs}, None
    return legs, None


def _leg(word: str) -> Leg:
    match = _LEG.fullmatch(word)
    if match is None:
        raise ValueError(f"{word!r} is not pool:quantity or pool:quantity/total")
    total = None if match["total"] is None else int(match["total"])
    return Leg(plain(match["pool"]), scalar(match["quantity"]), total)


def amounts(words: list[str]) -> Any:
    """Read nothing, a number, or `gpu:1 cpu:0` as a mapping."""
    if not words:
        return None
    if len(words) == 1 and not _LEG.fullmatch(words[0]):
        return scalar(words[0])
    legs = [_leg(word) for word in words]
    if len({leg.pool for leg in legs}) != len(legs) or any(leg.create_with_total is not None for leg in legs):
        raise ValueError("names a pool twice, or a total")
    return {leg.pool: leg.quantity for leg in legs}


def shortfalls(raw: str) -> tuple[tuple[str, int, int], ...]:
    """Read `gpu:2/1,cpu:1/0`: pool, requested, available of each."""
    legs = [_leg(word) for word in raw.split(",")]
    if any(leg.create_with_total is None for leg in legs):
        raise ValueError("each shortfall is pool:requested/available")
    return tuple((leg.pool, leg.quantity, leg.create_with_total or 0) for leg in legs)


def actions(words: list[str], family: str = "") -> list[str]:
    """Read actions of the journal; within one family (`hold`) their short names will do."""
    if words == ["nothing"]:
        return []
    full = [word if "." in word or not family else f"{family}.{word}" for word in words]
    known = one_of(Action)
    return [known(word) for word in full]


_ALLOWANCE: Final = re.compile(r"(?:(?P<budget>[^:]+):)?(?P<total>\d+)/(?P<per>[^@]+)(?:@(?P<zone>.+))?")


def _allowances(arguments: list[str], named: bool) -> list[tuple[str, Allowance]]:
    """Read `10/60s`, `1000/day@Europe/Berlin`; for budgets `tokens:1000/day`."""
    found: list[tuple[str, Allowance]] = []
    for word in arguments:
        match = _ALLOWANCE.fullmatch(word)
        if match is None or (match["budget"] is None) is named:
            raise ValueError(f"{word!r} is not {'budget:' if named else ''}total/per")
        found.append((match["budget"] or "", Allowance(int(match["total"]), match["per"], match["zone"])))
    return found


def rate(arguments: list[str]) -> dict[str, Any]:
    """Read a name, and its allowances."""
    name, *rest = arguments or [""]
    return {"name": plain(name), "allowances": tuple(allowance for _, allowance in _allowances(rest, False))}


def budget(arguments: list[str]) -> dict[str, Any]:
    """Read a name, and its budgets; a budget that is named twice has two windows."""
    name, *rest = arguments or [""]
    budgets: dict[str, tuple[Allowance, ...]] = {}
    for one, allowance in _allowances(rest, True):
        budgets[one] = (*budgets.get(one, ()), allowance)
    return {"name": plain(name), "budgets": budgets}


def calendar(arguments: list[str]) -> dict[str, Any]:
    """Read a name, and how many of each room."""
    name, *rest = arguments or [""]
    return {"name": plain(name), "rooms": amounts(rest)}


def use(arguments: list[str]) -> dict[str, Any]:
    """Read a hold's name, a rate, a client, and optionally a quantity."""
    if not 3 <= len(arguments) <= 4:
        raise ValueError("takes a name, a rate, a client, and perhaps a number")
    return {"hold": arguments[0], "face": arguments[1], "asked": (plain(arguments[2]), *map(scalar, arguments[3:]))}


def estimate(arguments: list[str]) -> dict[str, Any]:
    """Read a hold's name, the budgets, a client, and amounts."""
    if len(arguments) < 4:
        raise ValueError("takes a name, budgets, a client, and amounts")
    return {"hold": arguments[0], "face": arguments[1], "asked": (plain(arguments[2]), amounts(arguments[3:]))}


def spent(arguments: list[str]) -> dict[str, Any]:
    """Read a hold's name, the budgets, and amounts."""
    flags = {word: True for word in arguments if word == "keep_rest"}
    rest = [word for word in arguments if word not in flags]
    if len(rest) < 2:
        raise ValueError("takes a name, budgets, and amounts")
    return {"name": rest[0], "face": rest[1], "asked": (amounts(rest[2:]),), **flags}


def stay(arguments: list[str]) -> dict[str, Any]:
    """Read a hold's name, a calendar, rooms, and two dates."""
    if len(arguments) < 5:
        raise ValueError("takes a name, a calendar, rooms, and two dates")
    rooms, quantity = what(arguments[2:-2])
    if quantity is not None:
        rooms = {rooms: quantity}
    return {"hold": arguments[0], "face": arguments[1], "asked": (rooms, *map(date.fromisoformat, arguments[-2:]))}


def legs_of(what: Any, quantity: Any) -> tuple[Leg, ...]:
    """Return the pools of a statement, as legs."""
    if isinstance(what, str):
        return (Leg(what, 1 if quantity is None else quantity),)
    return tuple(what if isinstance(what, list) else itertools.starmap(Leg, what.items()))


def joined(words: list[str]) -> str:
    """Join words as a statement lists them."""
    return " ".join(words) or "nothing"
