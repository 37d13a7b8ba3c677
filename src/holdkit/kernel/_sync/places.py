# Generated from ../_async/places.py by tools/gen_sync.py: do not edit.
"""Where a named follower is: a cursor under its name, kept as a record, which one follower moves on at a time."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ...core.commands import PutRecord
from ...core.model import RecordKey
from ...core.reading import FindRecord
from ...core.validation import text
from ...errors import CursorLost, VersionConflict
from ..cursor import decode_cursor
from .desk import Desk

CURSORS = "~cursor"
CURSORS_OF_ALL = "~cursor-all"
"""The kind of those who follow all tenants: records of the default tenant, apart from the places of its own followers."""
MAX_NAME = 255


class Kept(Struct, frozen=True):
    """A place as it is kept."""

    cursor: str
    version: int


def kept_place(desk: Desk, tenant: str | None, name: str) -> Kept | None:
    """The place under a name, if there is one yet."""
    row = desk.submitter.read(FindRecord(_key(tenant, name)))
    return None if row is None else Kept(msgspec.json.decode(row.body, type=str), row.version)


def keep_place(desk: Desk, tenant: str | None, name: str, cursor: str, version: int, op: str | None = None) -> Kept:
    """Move on from the version that was seen (0: there was none). Raises `CursorLost` if somebody else did."""
    decode_cursor(cursor)
    body = msgspec.json.encode(cursor).decode()
    owner, kind, id = _key(tenant, name)
    try:
        done = desk.do(PutRecord(tenant=owner, kind=kind, id=id, body=body, if_version=version, op=op), faces=True)
    except VersionConflict:
        raise CursorLost(f"another follower named {name!r} moved the cursor: give each its own name") from None
    assert done.record is not None
    return Kept(cursor, done.record.version)


def _key(tenant: str | None, name: str) -> RecordKey:
    """Which record keeps it."""
    id = text(name, "name", MAX_NAME)
    return ("", CURSORS_OF_ALL, id) if tenant is None else (tenant, CURSORS, id)
