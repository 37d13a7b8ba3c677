"""Items: single things."""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from msgspec import Meta, Struct

from ..faces.keys import Item
from .fields import Body, Limit, Span, Time, Token

ItemIds: TypeAlias = Annotated[list[str], Meta(min_length=1, max_length=1_000)]


class ItemsQuery(Struct, forbid_unknown_fields=True):
    """The items to list."""

    prefix: str = ""
    after: str = ""
    limit: Limit = 100


class AddItems(Body, kw_only=True):
    """Create items."""

    ids: ItemIds


class ReopenItems(Body, kw_only=True):
    """Make spent items available again."""

    ids: ItemIds


class ReserveItems(Body, kw_only=True):
    """Reserve all of these items, or none."""

    ids: ItemIds
    ttl: Span | None = None
    owner: Token = None
    metadata: dict[str, Any] | None = None


class BestItems(Body, kw_only=True):
    """Reserve the first available items, from a list or with a common prefix."""

    count: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": 1_000})]
    within: Annotated[list[str], Meta(max_length=1_000)] | None = None
    prefix: str | None = None
    adjacent: Annotated[bool, Meta(description="only items that are next to each other")] = True
    ttl: Span | None = None
    owner: Token = None
    metadata: dict[str, Any] | None = None


class EndItems(Body, kw_only=True):
    """End the hold on some items."""

    hold: str
    owner: Token = None
    entity: str | None = None


class ReadItems(Struct, kw_only=True, forbid_unknown_fields=True):
    """The items to read; in a body, because a thousand ids do not fit into a URL."""

    ids: ItemIds


class ItemPage(Struct):
    """Items in order of id; `next` is the `after` of the next page."""

    items: list[Item]
    next: str | None
    server_time: Time


class ItemList(Struct):
    """Items in the requested order."""

    items: list[Item]
    server_time: Time
