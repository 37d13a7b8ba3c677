"""Read what faces have stored from the ids of their pools: calendars, budgets, rates, resources. Pure functions.

The definition of a face is in the application. The engine stores pools, one per thing that was held; these functions read names back from
their ids. A name that was too long for an id stands here as `#` and its hash.
"""

from __future__ import annotations

import json
import re
from datetime import date, timedelta
from typing import Final, Literal, TypeAlias, get_args
from urllib.parse import unquote

from msgspec import Struct

from ..core.keyed import CLAIMS, ITEMS
from ..core.model import SECOND, Slot
from ..core.model import Pool as StoredPool
from ..core.values import MAX_ID, invalid, text
from ..kernel.one_line import summary
from ..kernel.pool import Pool
from .allowances import part
from .resource_keys import PREFIX as RESOURCES
from .resource_keys import check_kind

FaceName: TypeAlias = Literal["calendars", "budgets", "rates", "resources", "sections"]
"""A face whose things have names."""
PREFIXES: Final[dict[str, str]] = {
    "calendars": "~calendar/",
    "budgets": "~budgets/",
    "rates": "~rates/",
    "resources": RESOURCES,
    "claims": CLAIMS,
    "items": ITEMS,
}
"""How the ids of the pools of each face begin."""
MAX_DAYS: Final = 62
MAX_CELLS: Final = 1_000
"""Cells of one room in one answer."""
_HASHED: Final = re.compile("#[0-9a-f]{32}")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Present(Struct, frozen=True):
    """Which faces have stored anything."""

    claims: bool
    items: bool
    sections: bool
    calendars: bool
    budgets: bool
    rates: bool
    resources: bool
    sagas: bool
    accounts: bool

    __repr__ = summary


class StoredCell(Struct, frozen=True):
    """One room in one night, or in one interval of time, with units that were held."""

    key: str
    """Its date, or its beginning in UTC."""
    pool: Pool


class StoredRoom(Struct, frozen=True):
    """One room of a calendar."""

    room: str
    cells: tuple[StoredCell, ...]
    """In order of time."""
    more: bool
    """Whether there are more cells in the range than an answer has."""


class StoredWindow(Struct, frozen=True):
    """One client in one window of a budget or rate."""

    client: str
    budget: str
    """Empty for a rate."""
    per: str
    opens: Slot
    pool: Pool


class StoredResource(Struct, frozen=True):
    """One key and window of a resource, as JSON texts."""

    key: str
    window: str
    pool: Pool


def check_face(face: object, allowed: tuple[str, ...] = get_args(FaceName)) -> None:
    """Refuse what is no face whose things have names."""
    if face not in allowed:
        raise invalid("face", "face_unknown", f"must be one of {', '.join(allowed)}")


def named_prefix(face: str, name: object) -> str:
    """Return the beginning of the ids of the pools of one calendar, budget, rate or resource."""
    found = check_kind(name) if face == "resources" else part_of(text(name, "name", MAX_ID))
    return f"{PREFIXES[face]}{found}/"


def part_of(name: str) -> str:
    """Return a name as a part of an id. A name that stands as its hash is such a part already."""
    return name if _HASHED.fullmatch(name) else part(name)


def name_of(written: str) -> str:
    """Return the name that a part of an id stands for."""
    return written if written.startswith("#") else unquote(written, errors="replace")


def group_of(face: str, prefix: str, pool: str) -> str:
    """Return the name behind a prefix in a pool's id."""
    found = pool[len(prefix) :].partition("/")[0]
    return found if face == "resources" else name_of(found)


def days_of(begin: object, days: object) -> tuple[str, str]:
    """Return the first day, and the first day behind the range."""
    if not isinstance(begin, str) or not _DAY.fullmatch(begin):
        raise invalid("begin", "begin_not_date", "must be a date such as 2026-07-01")
    try:
        first = date.fromisoformat(begin)
        last = first + timedelta(days=days if type(days) is int and 1 <= days <= MAX_DAYS else -1)
    except (ValueError, OverflowError):
        raise invalid(
            "begin", "begin_out_of_range", "must be a date of the calendar, and not one of its last"
        ) from None
    if last < first:
        raise invalid("days", "days_out_of_range", f"must be at least 1 and at most {MAX_DAYS}")
    return first.isoformat(), last.isoformat()


def window_of(prefix: str, pool: StoredPool) -> StoredWindow | None:
    """Return the window that a pool stands for; None if its id has another form."""
    *names, last = pool.id[len(prefix) :].split("/")
    per, mark, second = last.partition("@")
    if not 1 <= len(names) <= 2 or not mark or not second.lstrip("-").isdecimal():
        return None
    client, budget = name_of(names[0]), name_of(names[1]) if len(names) == 2 else ""
    return StoredWindow(client, budget, per, int(second) * SECOND, Pool(pool))


def resource_texts(prefix: str, pool: str, stored: str | None = None) -> tuple[str, str]:
    """Return key and window of a resource's pool; from the record that stores long ones, if there is one."""
    rest = pool[len(prefix) :] if stored is None else stored[1:-1]
    if rest.startswith("#"):
        key, _, window = rest.partition("/")
        return key, window
    try:
        _, end = json.JSONDecoder().raw_decode(rest)
    except ValueError:
        return rest, ""
    return rest[:end], rest[end + 1 :]


def is_hashed(texts: tuple[str, str]) -> bool:
    """Return whether key or window are only known by a hash."""
    return any(one.startswith("#") for one in texts)
