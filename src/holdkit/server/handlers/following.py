"""Places in the journal, and small documents beside the holds. What is reserved for ourselves is not shown."""

from __future__ import annotations

from ...core.model import Record
from ...core.validation import invalid, text
from ...kernel._async.named_follower import keep_place, kept_place
from ...kernel.cursor import generation_of
from ...kernel.places import MAX_FOLLOWER, Kept
from ..answers import at
from ..places import (
    CursorAnswer,
    CursorQuery,
    FollowerQuery,
    KeptCursor,
    MoveCursor,
    PutRecordWish,
    RecordAnswer,
    RecordNow,
    RecordPage,
    RecordsQuery,
)
from ..problems import Problem
from ..request import REPLAYED, Answer, Request, answer
from ..webhooks.hooks import PLACES
from .shared import frame


async def show_end(request: Request) -> Answer:
    """Where the journal ends now."""
    query: CursorQuery = request.query
    cursor = await request.kernel.cursor(back=query.back)
    return answer(CursorAnswer(cursor, generation_of(cursor), request.now()))


async def show_cursor(request: Request) -> Answer:
    """Where a named follower is."""
    name = _name(request)
    kept = await kept_place(request.kernel.executor, _whose(request), name)
    if kept is None:
        raise Problem(404, "cursor_not_found", "no follower of this name has kept its place yet")
    return answer(_kept(request, name, kept))


async def move_cursor(request: Request) -> Answer:
    """Behind what the follower has seen."""
    body: MoveCursor = request.body
    name = _name(request)
    follower = text(body.follower, "follower", MAX_FOLLOWER) if body.follower else ""
    kept = await keep_place(
        request.kernel.executor, _whose(request), name, body.cursor, body.if_version, follower=follower, op=request.op
    )
    return answer(_kept(request, name, kept))


def _kept(request: Request, name: str, kept: Kept) -> KeptCursor:
    return KeptCursor(name, kept.cursor, kept.follower, kept.version, kept.slot, request.now())


async def list_records(request: Request) -> Answer:
    """Of one kind, in order of id."""
    query: RecordsQuery = request.query
    found = await request.kernel.records(_kind(query.kind), after=query.after, limit=query.limit)
    after = found[-1].id if len(found) == query.limit else None
    return answer(RecordPage([_record(record) for record in found], after, request.now()))


async def show_record(request: Request) -> Answer:
    """One record."""
    kind, id = request.names
    found = await request.kernel.record(_kind(kind), id)
    if found is None:
        raise Problem(404, "record_not_found", "there is no such record")
    return answer(RecordNow(_record(found), request.now()))


async def put_record(request: Request) -> Answer:
    """Write, replace or remove."""
    body: PutRecordWish = request.body
    kind, id = request.names
    done = await request.kernel.put_record(
        _kind(kind), id, body.body, if_version=body.if_version, **frame(request, body)
    )
    headers = (REPLAYED,) if done is not None and done.replayed else ()
    return answer(RecordNow(None if done is None else _record(done), request.now()), 200, headers)


def _whose(request: Request) -> str | None:
    """The tenant whose follower it is; None: it follows all."""
    query: FollowerQuery = request.query
    return None if query.all_tenants else request.caller.tenant


def _name(request: Request) -> str:
    """Who could move the place of a webhook could make it skip what it should deliver."""
    (name,) = request.names
    if name.startswith(PLACES):
        raise invalid("name", "name_reserved", f"names that begin with {PLACES} are those of webhooks")
    return name


def _kind(kind: str) -> str:
    """Keys, hooks and cursors are records too, and nobody's to read here."""
    if kind.startswith("~"):
        raise invalid("kind", "kind_reserved", "kinds that begin with ~ are reserved")
    return kind


def _record(record: Record) -> RecordAnswer:
    return RecordAnswer(kind=record.kind, id=record.id, body=record.body, version=record.version, slot=record.slot, at=at(record.slot),
                        replayed=record.replayed)  # fmt: skip
