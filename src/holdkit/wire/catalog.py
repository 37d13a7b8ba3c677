"""The catalog: what faces have stored, by name, for those who do not have their definitions."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ..core.pages import Page
from ..faces.catalog import FaceName, Present, StoredResource, StoredRoom, StoredWindow
from ..kernel.pool import Pool
from .fields import Limit, Time, at

Name: TypeAlias = Annotated[
    str, Meta(description="a name that was too long for the id of a pool is given as # and its hash")
]
Held: TypeAlias = Annotated[int, Meta(description="held until a deadline: of a budget, the estimates")]
Consumed: TypeAlias = Annotated[int, Meta(description="confirmed: of a budget, the actual amounts")]


class FacesAnswer(Present, frozen=True, kw_only=True):
    """Which faces of your tenant have stored anything."""

    server_time: Time


class FaceNamesQuery(Struct, forbid_unknown_fields=True):
    """The names to list."""

    face: FaceName = "calendars"
    after: str = ""
    limit: Limit = 100


class CalendarQuery(Struct, forbid_unknown_fields=True):
    """The part of a calendar to read. `name` and `begin` are required: the kernel says so."""

    name: str = ""
    begin: Annotated[str, Meta(description="the first date, such as 2026-07-01")] = ""
    days: Annotated[int, Meta(ge=1, le=62)] = 14
    after: Annotated[str, Meta(description="`next` of the page before: a room")] = ""
    limit: Annotated[int, Meta(ge=1, le=100, description="of rooms")] = 50


class WindowsQuery(Struct, forbid_unknown_fields=True):
    """The windows to list. `name` is required: the kernel says so."""

    face: Literal["budgets", "rates"] = "budgets"
    name: str = ""
    client: str | None = None
    after: str = ""
    limit: Limit = 100


class ResourcesQuery(Struct, forbid_unknown_fields=True):
    """The resources to list. `kind` is required: the kernel says so."""

    kind: str = ""
    after: str = ""
    limit: Limit = 100


class CellAnswer(Struct):
    """One room in one night, or in one interval of time, with units that were held."""

    begins: Annotated[str, Meta(description="its date; or the time at which it begins, in UTC")]
    pool: str
    total: int
    held: Held
    consumed: Consumed
    available: Annotated[int, Meta(description="0 once it is over")]
    closes: Annotated[Time | None, Meta(description="when it is over, and can no longer be held")]


class RoomAnswer(Struct):
    """One room of a calendar, in order of time. What is missing was never held: the application knows how many there are."""

    room: Name
    cells: list[CellAnswer]
    complete: Annotated[bool, Meta(description="whether these are all cells of the range: at most 1,000 are given")]


class CalendarPage(Struct):
    """Rooms in order of name; `next` is the `after` of the next page."""

    items: list[RoomAnswer]
    next: str | None
    server_time: Time


class StoredWindowAnswer(Struct):
    """One client in one window of a budget or rate."""

    client: Name
    budget: Annotated[Name, Meta(description="empty for a rate")]
    per: Annotated[str, Meta(description="day, week, month, year, or a length such as 60s")]
    opens: Time
    closes: Time | None
    pool: str
    total: int
    held: Held
    consumed: Consumed
    available: int


class StoredWindowPage(Struct):
    """Windows in order of client; `next` is the `after` of the next page."""

    items: list[StoredWindowAnswer]
    next: str | None
    server_time: Time


class ResourceAnswer(Struct):
    """One key and window of a resource."""

    key: Annotated[str, Meta(description="as JSON text")]
    window: Annotated[str, Meta(description="as JSON text; null if the resource has none")]
    pool: str
    total: Annotated[int, Meta(description="the capacity as the application answered it last")]
    held: int
    consumed: int
    available: int
    closes: Time | None


class ResourcePage(Struct):
    """Resources in order of pool id; `next` is the `after` of the next page."""

    items: list[ResourceAnswer]
    next: str | None
    server_time: Time


def calendar_page(rooms: Page[StoredRoom], now: Time) -> CalendarPage:
    """Return rooms as a document."""
    items = [
        RoomAnswer(one.room, [_cell(cell.key, cell.pool, now) for cell in one.cells], not one.more) for one in rooms
    ]
    return CalendarPage(items, rooms.reached, now)


def _cell(key: str, pool: Pool, now: Time) -> CellAnswer:
    available = 0 if pool.closes is not None and pool.closes <= now else pool.available
    return CellAnswer(key, pool.id, pool.total, pool.held, pool.consumed, available, at(pool.closes))


def window_page(windows: Page[StoredWindow], now: Time) -> StoredWindowPage:
    """Return windows as a document."""
    items = [
        StoredWindowAnswer(
            one.client, one.budget, one.per, at(one.opens), at(one.pool.closes),
            one.pool.id, one.pool.total, one.pool.held, one.pool.consumed, one.pool.available,
        )
        for one in windows
    ]  # fmt: skip
    return StoredWindowPage(items, windows.reached, now)


def resource_page(resources: Page[StoredResource], now: Time) -> ResourcePage:
    """Return resources as a document."""
    items = [
        ResourceAnswer(
            one.key, one.window, one.pool.id, one.pool.total, one.pool.held, one.pool.consumed, one.pool.available,
            at(one.pool.closes),
        )
        for one in resources
    ]  # fmt: skip
    return ResourcePage(items, resources.reached, now)
