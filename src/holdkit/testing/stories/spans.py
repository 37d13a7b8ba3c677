"""How lines about rates, budgets and calendars are read. Strict, like all words of a story; nothing is run here."""

from __future__ import annotations

import re
from datetime import date
from typing import Any, Final

from ... import Allowance
from . import words

_ALLOWANCE: Final = re.compile(r"(?:(?P<budget>[^:]+):)?(?P<total>\d+)/(?P<per>[^@]+)(?:@(?P<zone>.+))?")


def _allowances(said: list[str], named: bool) -> list[tuple[str, Allowance]]:
    """`10/60s`, `1000/day@Europe/Berlin`; of budgets `tokens:1000/day`."""
    found: list[tuple[str, Allowance]] = []
    for word in said:
        match = _ALLOWANCE.fullmatch(word)
        if match is None or (match["budget"] is None) is named:
            raise ValueError(f"{word!r} is not {'budget:' if named else ''}total/per")
        found.append((match["budget"] or "", Allowance(int(match["total"]), match["per"], match["zone"])))
    return found


def rate(said: list[str]) -> dict[str, Any]:
    """A name, and its allowances."""
    name, *rest = said or [""]
    return {"name": words.plain(name), "allowances": tuple(allowance for _, allowance in _allowances(rest, False))}


def budget(said: list[str]) -> dict[str, Any]:
    """A name, and its budgets; one named twice has two windows."""
    name, *rest = said or [""]
    budgets: dict[str, tuple[Allowance, ...]] = {}
    for one, allowance in _allowances(rest, True):
        budgets[one] = (*budgets.get(one, ()), allowance)
    return {"name": words.plain(name), "budgets": budgets}


def calendar(said: list[str]) -> dict[str, Any]:
    """A name, and how many of each room."""
    name, *rest = said or [""]
    return {"name": words.plain(name), "rooms": words.amounts(rest)}


def take(said: list[str]) -> dict[str, Any]:
    """A hold's name, a rate, a client, and perhaps how many."""
    if not 3 <= len(said) <= 4:
        raise ValueError("takes a name, a rate, a client, and perhaps a number")
    return {"hold": said[0], "face": said[1], "asked": (words.plain(said[2]), *map(words.scalar, said[3:]))}


def estimate(said: list[str]) -> dict[str, Any]:
    """A hold's name, the budgets, a client, and amounts."""
    if len(said) < 4:
        raise ValueError("takes a name, budgets, a client, and amounts")
    return {"hold": said[0], "face": said[1], "asked": (words.plain(said[2]), words.amounts(said[3:]))}


def spent(said: list[str]) -> dict[str, Any]:
    """A hold's name, the budgets, and amounts."""
    flags = {word: True for word in said if word == "keep_rest"}
    rest = [word for word in said if word not in flags]
    if len(rest) < 2:
        raise ValueError("takes a name, budgets, and amounts")
    return {"name": rest[0], "face": rest[1], "asked": (words.amounts(rest[2:]),), **flags}


def stay(said: list[str]) -> dict[str, Any]:
    """A hold's name, a calendar, rooms, and two dates."""
    if len(said) < 5:
        raise ValueError("takes a name, a calendar, rooms, and two dates")
    what, quantity = words.what(said[2:-2])
    if quantity is not None:
        what = {what: quantity}
    return {"hold": said[0], "face": said[1], "asked": (what, *map(date.fromisoformat, said[-2:]))}
