"""Records: small documents beside the holds."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from .fields import Body, Limit, Time, Version


class RecordsQuery(Struct, forbid_unknown_fields=True):
    """The records to list."""

    kind: str = ""
    after: str = ""
    limit: Limit = 100


class PutRecordBody(Body, kw_only=True):
    """Write a record, or remove it."""

    body: Annotated[str | None, Meta(description="a JSON document as text; null removes the record")]
    if_version: Annotated[
        Version | None, Meta(description="only if it is at this version; 0: only if it does not exist")
    ] = None


class RecordAnswer(Struct, kw_only=True, omit_defaults=True):
    """A record."""

    kind: str
    id: str
    body: str
    version: int
    at: Time
    replayed: bool = False


class RecordNow(Struct):
    """One record; null if it was removed."""

    record: RecordAnswer | None
    server_time: Time


class RecordPage(Struct):
    """Records in order of id; `next` is the `after` of the next page."""

    items: list[RecordAnswer]
    next: str | None
    server_time: Time
