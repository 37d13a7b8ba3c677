"""Cursors of named followers, and records: small documents beside the holds. Reserved kinds and names are not accessible."""

from __future__ import annotations

from ...core.model import Record
from ...core.validation import invalid, text
from ...kernel._async.following import find_cursor, save_cursor
from ...kernel.follower_state import MAX_FOLLOWER, SavedCursor
from ...kernel.journal import generation_of
from ...wire.fields import at
from ...wire.journal import CursorAnswer, CursorQuery, FollowerQuery, KeptCursor, MoveCursor
from ...wire.records import PutRecordBody, RecordAnswer, RecordNow, RecordPage, RecordsQuery
from ..problems import Problem
from ..request import REPLAYED, Answer, Request, answer
from ..webhooks.hooks import FOLLOWER_PREFIX
from .calls import call_fields


async def show_end(request: Request) -> Answer:
    """The cursor at the end of the journal."""
    query: CursorQuery = request.query
    cursor = await request.kernel.cursor(back=query.back)
    return answer(CursorAnswer(cursor, generation_of(cursor), request.now()))


async def show_cursor(request: Request) -> Answer:
    """The stored cursor of a named follower."""
    name = _name(request)
    kept = await find_cursor(request.kernel.executor, _whose(request), name)
    if kept is None:
        raise Problem(404, "cursor_not_found", "no follower with this name has stored a cursor yet")
    return answer(_kept(request, name, kept))


async def move_cursor(request: Request) -> Answer:
    """Store the cursor of a named follower."""
    body: MoveCursor = request.body
    name = _name(request)
    follower = text(body.follower, "follower", MAX_FOLLOWER) if body.follower else ""
    kept = await save_cursor(
        request.kernel.executor, _whose(request), name, body.cursor, body.if_version, follower=follower, op=request.op
    )
    return answer(_kept(request, name, kept))


def _kept(request: Request, name: str, kept: SavedCursor) -> KeptCursor:
    return KeptCursor(name, kept.cursor, kept.follower, kept.version, kept.slot, request.now())


async def list_records(request: Request) -> Answer:
    """List the records of one kind in order of id."""
    query: RecordsQuery = request.query
    found = await request.kernel.records(_kind(query.kind), after=query.after, limit=query.limit)
    after = found[-1].id if len(found) == query.limit else None
    return answer(RecordPage([_record(record) for record in found], after, request.now()))


async def show_record(request: Request) -> Answer:
    """One record."""
    kind, id = request.names
    found = await request.kernel.record(_kind(kind), id)
    if found is None:
        raise Problem(404, "record_not_found", "there is no record with this kind and id")
    return answer(RecordNow(_record(found), request.now()))


async def put_record(request: Request) -> Answer:
    """Write, replace or remove a record."""
    body: PutRecordBody = request.body
    kind, id = request.names
    done = await request.kernel.put_record(
        _kind(kind), id, body.body, if_version=body.if_version, **call_fields(request, body)
    )
    headers = (REPLAYED,) if done is not None and done.replayed else ()
    return answer(RecordNow(None if done is None else _record(done), request.now()), 200, headers)


def _whose(request: Request) -> str | None:
    """The tenant of the follower; None for a follower of all tenants."""
    query: FollowerQuery = request.query
    return None if query.all_tenants else request.caller.tenant


def _name(request: Request) -> str:
    """The follower's name. Names of webhooks are reserved: moving one's cursor would make it skip deliveries."""
    (name,) = request.names
    if name.startswith(FOLLOWER_PREFIX):
        raise invalid("name", "name_reserved", f"names that begin with {FOLLOWER_PREFIX} are reserved for webhooks")
    return name


def _kind(kind: str) -> str:
    """Check the kind: API keys, webhooks and cursors are records too, and must not be readable here."""
    if kind.startswith("~"):
        raise invalid("kind", "kind_reserved", "kinds that begin with ~ are reserved")
    return kind


def _record(record: Record) -> RecordAnswer:
    return RecordAnswer(kind=record.kind, id=record.id, body=record.body, version=record.version, slot=record.slot, at=at(record.slot),
                        replayed=record.replayed)  # fmt: skip
