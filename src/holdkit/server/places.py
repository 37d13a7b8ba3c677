"""Cursors and records as they travel."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from ..core.model import Slot
from .bodies import Body, Limit
from .queries import AllTenants

Version = Annotated[int, Meta(extra_json_schema={"minimum": 0})]


class CursorQuery(Struct, forbid_unknown_fields=True):
    """Where: behind everything, or so many entries earlier in each lane."""

    back: Annotated[int, Meta(ge=0)] = 0


class FollowerQuery(Struct, forbid_unknown_fields=True):
    """Which followers: those of your tenant, or those of all tenants."""

    all_tenants: AllTenants = False


class CursorAnswer(Struct):
    """A place in the journal."""

    cursor: str
    generation: Annotated[
        str, Meta(description="which life of the journal this is: changed by promotion, restore, import")
    ]
    server_time: datetime


class KeptCursor(Struct):
    """The place under a follower's name."""

    name: str
    cursor: str
    follower: Annotated[str, Meta(description="the word of the follower that kept it, if it said one")]
    version: int
    slot: Slot
    server_time: datetime


class MoveCursor(Struct, kw_only=True, forbid_unknown_fields=True):
    """Move on, from the version that was seen; 0 for a name that is new."""

    cursor: str
    if_version: Version
    follower: Annotated[
        str,
        Meta(
            description="a random word of your own, one for each run: whoever meets it under the name has written there"
        ),
    ] = ""


class RecordsQuery(Struct, forbid_unknown_fields=True):
    """Which records."""

    kind: str = ""
    after: str = ""
    limit: Limit = 100


class PutRecordWish(Body, kw_only=True):
    """Write a record, or remove it."""

    body: Annotated[str | None, Meta(description="a JSON document, as text; null removes the record")]
    if_version: Annotated[Version | None, Meta(description="only if it is at this version; 0: if there is none")] = None


class RecordAnswer(Struct, kw_only=True, omit_defaults=True):
    """A record as it is."""

    kind: str
    id: str
    body: str
    version: int
    slot: Slot
    at: datetime
    replayed: bool = False


class RecordNow(Struct):
    """One record; null where it was removed."""

    record: RecordAnswer | None
    server_time: datetime


class RecordPage(Struct):
    """Records in order of id; `next` is the `after` of the next page."""

    items: list[RecordAnswer]
    next: str | None
    server_time: datetime
