"""Reprs of results: one line of at most `MAX_LENGTH` characters, without None, storage or secrets. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from msgspec.structs import fields

MAX_LENGTH: Final = 120
MAX_NAMES: Final = 60
"""The most characters for the names of legs, with their amounts."""
_CUT: Final = "…"


def line(*parts: str | None) -> str:
    """Return the parts that are not empty in angle brackets, cut at the end if they are too long."""
    text = plain(" ".join([part for part in parts if part]))
    room = MAX_LENGTH - 2
    return f"<{text if len(text) <= room else text[: room - 1].rstrip() + _CUT}>"


def plain(text: str) -> str:
    """Return a text as one printable line: line breaks and other unprintable characters become spaces."""
    return text if text.isprintable() else "".join([char if char.isprintable() else " " for char in text])


def shortened(text: str, room: int) -> str:
    """Return a text, cut in its middle if it has more than `room` characters."""
    if len(text) <= room:
        return text
    behind = (room - 1) // 2
    return text[: room - 1 - behind] + _CUT + text[len(text) - behind :]


def amounts(named: Iterable[tuple[str, str]], room: int = MAX_NAMES) -> str:
    """Return names with their amounts in braces. Leave out names that do not fit, but cut the name if it is the first."""
    entries = [(plain(name), amount) for name, amount in named]
    shown = ""
    for number, (name, amount) in enumerate(entries):
        is_last = number == len(entries) - 1
        longer = f"{shown}{', ' if shown else ''}{name}: {amount}"
        if len(longer) + (0 if is_last else 3) <= room:
            shown = longer
        elif shown:
            return f"{{{shown}, {_CUT}}}"
        else:
            more = "" if is_last else f", {_CUT}"
            return f"{{{shortened(name, max(3, room - len(amount) - len(more) - 2))}: {amount}{more}}}"
    return f"{{{shown}}}"


def amount(present: int, granted: int) -> str:
    """Return an amount, with the granted amount if less remains by now."""
    return str(present) if present >= granted else f"{present} of {granted}"


def summary(report: Struct) -> str:
    """Return a report as one line: the fields that differ from their defaults, lists by their lengths, no reports within it."""
    named = [(field.name, field.default, getattr(report, field.name)) for field in fields(type(report))]
    shown = [(name, value) for name, default, value in named if value is not None and value != default]
    return line(type(report).__name__, *[f"{name}={_brief(value)}" for name, value in shown if _says_something(value)])


def _says_something(value: object) -> bool:
    return (not isinstance(value, Struct | bool) and value not in ("", (), [], {})) or value is True


def _brief(value: object) -> str:
    if isinstance(value, datetime):
        return moment_text(value)
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    return str(len(value)) if isinstance(value, Sized) and not isinstance(value, str) else str(value)


def moment_text(at: datetime) -> str:
    """Return a time as `2026-11-18 19:42:10Z`."""
    return at.isoformat(" ", "seconds").removesuffix("+00:00") + "Z"
