"""Search: what a text may mean, in groups; and the names of entities and accounts."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..faces.keys import Item
from .claims import ClaimAnswer
from .fields import Limit, Time
from .holds import HoldAnswer
from .pools import PoolAnswer


class SearchQuery(Struct, forbid_unknown_fields=True):
    """The text to search for."""

    q: Annotated[str, Meta(extra_json_schema={"maxLength": 512}, description="an empty text finds nothing")] = ""
    limit: Annotated[Limit, Meta(description="of each group")] = 10


class SearchAnswer(Struct, kw_only=True):
    """What was found, in groups. What an API key may not read is left out of it."""

    pools: Annotated[
        list[PoolAnswer], Meta(description="those whose id begins with the text, then those that contain it")
    ]
    holds: Annotated[list[HoldAnswer], Meta(description="those whose id begins with it")]
    entities: Annotated[list[str], Meta(description="those that begin with it")]
    accounts: Annotated[list[str], Meta(description="those that begin with it")]
    claims: Annotated[list[ClaimAnswer], Meta(description="that of this key, type:value")]
    items: Annotated[list[Item], Meta(description="those whose id begins with it")]
    complete: Annotated[
        bool, Meta(description="whether the names of all pools were searched; one request searches some thousands")
    ]
    server_time: Time


class NamesQuery(Struct, forbid_unknown_fields=True):
    """The names to list."""

    prefix: str = ""
    after: str = ""
    limit: Limit = 100


class NamePage(Struct):
    """Names in order; `next` is the `after` of the next page."""

    items: list[str]
    next: str | None
    server_time: Time
