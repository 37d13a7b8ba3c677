"""Items: single things; and seats, which have a place in a section."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeAlias

from msgspec import Meta, Struct

from ..faces.keys import Item
from ..faces.seating import Seat
from .fields import Body, Limit, Span, Time, Token

ItemIds: TypeAlias = Annotated[list[str], Meta(min_length=1, max_length=1_000)]
HoldFor: TypeAlias = Annotated[Span | None, Meta(description="null: until the hold is ended")]
MAX_SEATS: Final = 1_000
"""Seats that one request may take."""


class ItemsQuery(Struct, forbid_unknown_fields=True):
    """The items to list."""

    prefix: str = ""
    after: str = ""
    limit: Limit = 100


class NewSeat(Seat, frozen=True, forbid_unknown_fields=True):
    """A seat that is added."""


class AddItems(Body, kw_only=True):
    """Create items."""

    ids: ItemIds


class AddSeats(Body, kw_only=True):
    """Create seats, or give existing ones another place."""

    seats: Annotated[list[NewSeat], Meta(min_length=1, max_length=1_000)]


class SeatsQuery(Struct, forbid_unknown_fields=True):
    """The seats to list. `section` is required: the kernel says so."""

    section: str = ""
    after: str = ""
    limit: Limit = 100


class RemoveSeats(Body, kw_only=True):
    """Take seats out of the map of a section."""

    section: str
    ids: Annotated[ItemIds | None, Meta(description="null: all seats of the section")] = None


class FreeItems(Body, kw_only=True):
    """Make confirmed items available again. It is recorded as forced."""

    ids: ItemIds
    reason: str


class HoldItems(Body, kw_only=True):
    """Hold all of these items, or none."""

    ids: ItemIds
    ttl: HoldFor
    token: Token = None
    metadata: dict[str, Any] | None = None


class HoldSeats(Body, kw_only=True):
    """Hold the best free seats of a section."""

    count: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_SEATS})]
    section: str
    kind: Annotated[str, Meta(description="only seats of this kind are looked at")] = ""
    together: Annotated[
        bool | Literal["prefer"], Meta(description="neighbours only; neighbours if possible; or the best ones anywhere")
    ] = True
    ttl: HoldFor
    token: Token = None
    metadata: dict[str, Any] | None = None


class ReleaseItems(Body, kw_only=True):
    """Release the hold that has exactly these items."""

    ids: ItemIds
    token: str


class ConfirmItems(ReleaseItems, kw_only=True):
    """Confirm the hold that has exactly these items."""

    entity: str | None = None


class ReadItems(Struct, kw_only=True, forbid_unknown_fields=True):
    """The items to read; in a body, because a thousand ids do not fit into a URL."""

    ids: ItemIds
    token: Annotated[str | None, Meta(description="a token: each item then says whether it is `yours`")] = None


class ItemPage(Struct):
    """Items in order of id; `next` is the `after` of the next page."""

    items: list[Item]
    next: str | None
    server_time: Time


class SeatPage(Struct):
    """Seats in order of row and position; `next` is the `after` of the next page."""

    seats: list[Seat]
    next: str | None
    server_time: Time


class SeatsRemoved(Struct):
    """The seats are no longer in the map of the section."""

    section: str
    server_time: Time


class ItemList(Struct):
    """Items in the requested order."""

    items: list[Item]
    server_time: Time
