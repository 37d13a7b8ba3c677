"""What callers may ask for: one struct per query. Unknown names are refused."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ..core.model import State
from .bodies import Limit

AllTenants = Annotated[bool, Meta(description="of every tenant: for operators")]


class ClientQuery(Struct, forbid_unknown_fields=True):
    """Whose windows."""

    client: str = ""


class PageQuery(Struct, forbid_unknown_fields=True):
    """Which page."""

    after: str = ""
    limit: Limit = 100


class Nothing(Struct, forbid_unknown_fields=True):
    """No query is understood here."""


class PoolsQuery(Struct, forbid_unknown_fields=True):
    """Which pools."""

    prefix: str = ""
    contains: str = ""
    archived: bool = False
    after: str = ""
    limit: Limit = 100


class HoldsQuery(Struct, forbid_unknown_fields=True):
    """Which holds."""

    pool: str | None = None
    state: State | None = None
    entity: str | None = None
    after: str = ""
    limit: Limit = 100


class JournalQuery(Struct, forbid_unknown_fields=True):
    """Which part of the journal: behind a cursor, or the last entries there are."""

    after: str | None = None
    last: Annotated[int, Meta(ge=1, le=1_000)] | None = None
    limit: Limit = 100
    all_tenants: AllTenants = False


class HistoryQuery(Struct, forbid_unknown_fields=True):
    """Which part of a history: behind a cursor. A hold's comes whole, whatever the limit."""

    after: str | None = None
    limit: Limit = 100


class EventsQuery(Struct, forbid_unknown_fields=True):
    """Which events."""

    after: str | None = None
    kind: Literal["entries", "summary"] = "entries"
    all_tenants: AllTenants = False
