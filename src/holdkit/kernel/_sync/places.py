# Generated from ../_async/places.py by tools/gen_sync.py: do not edit.
"""Where a named follower is: a cursor under its name, kept as a record, which one follower moves on at a time."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ...core.commands import PutRecord
from ...core.reading import FindRecord
from ...core.validation import text
from ...errors import CursorLost, VersionConflict
from ..cursor import decode_cursor
from .desk import Desk

CURSORS = "~cursor"
MAX_NAME = 255


class Kept(Struct, frozen=True):
    """A place as it is kept."""

    cursor: str
    version: int


def kept_place(desk: Desk, tenant: str, name: str) -> Kept | None:
    """The place under a name, if there is one yet."""
    row = desk.submitter.read(FindRecord((tenant, CURSORS, text(name, "name", MAX_NAME))))
    return None if row is None else Kept(msgspec.json.decode(row.body, type=str), row.version)


def keep_place(desk: Desk, tenant: str, name: str, cursor: str, version: int, op: str | None = None) -> Kept:
    """Move on from the version that was seen (0: there was none). Raises `CursorLost` if somebody else did."""
    decode_cursor(cursor)
    body = msgspec.json.encode(cursor).decode()
    id = text(name, "name", MAX_NAME)
    try:
        done = desk.do(PutRecord(tenant=tenant, kind=CURSORS, id=id, body=body, if_version=version, op=op), faces=True)
    except VersionConflict:
        raise CursorLost(f"another follower named {name!r} moved the cursor: give each its own name") from None
    assert done.record is not None
    return Kept(cursor, done.record.version)
