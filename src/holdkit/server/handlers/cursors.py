"""Cursors, the end of the journal, and records: small documents beside the holds. Reserved kinds and names are not accessible."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import NamedTuple

from ...core.pages import document_bytes
from ...core.personal import text_digest
from ...core.reading import FindEntries
from ...core.validation import invalid, text
from ...kernel._async.named_following import find_cursor, save_cursor
from ...kernel.follower_state import MAX_FOLLOWER, SavedCursor
from ...kernel.journal import ALL, JournalEntry
from ...kernel.pages import decode_cursor, encode_cursor, generation_of
from ...kernel.results import Record
from ...wire.fields import at
from ...wire.journal import CursorAnswer, CursorQuery, FollowerQuery, KeptCursor, MoveCursor
from ...wire.problems import REPLAYED, Problem
from ...wire.records import PutRecordBody, RecordAnswer, RecordNow, RecordPage, RecordsQuery
from ..request import Answer, Request, answer
from ..webhooks.hooks import FOLLOWER_PREFIX


async def cursor(request: Request) -> Answer:
    """Answer with the cursor at the end of the journal."""
    query: CursorQuery = request.query
    own = query.back and not request.caller.operator
    cursor = await (_back(request, query.back) if own else request.kernel.journal.cursor(back=query.back))
    return answer(CursorAnswer(request.caller.positions.show(cursor), generation_of(cursor), request.now()))


class Tail(NamedTuple):
    """The last entries of the journal that were read."""

    latest: list[JournalEntry]
    """The last entries by time, at most `wanted`."""
    lanes: dict[int, deque[int]]
    """By lane the numbers of its last entries, at most `wanted`."""
    start: str
    """The cursor at which reading began."""
    end: str
    """The cursor behind the last entry."""


async def read_tail(request: Request, wanted: int, *, of_all: bool = False) -> Tail:
    """Return the last entries of the caller's tenant, or of all.

    The kernel steps back by entries of all tenants. To show how many of them are the caller's would reveal the number of the
    others. So each lane is searched further back until it has `wanted` entries of the caller, within `answers.journal_scan`.
    """
    kernel = request.kernel
    most = max(wanted, request.running.settings.answers.journal_scan // kernel._executor.engine.lanes)
    back, enough = wanted, dict[int, tuple[int, str]]()
    while True:
        cursor = await kernel.journal.cursor(back=back)
        begins = {**decode_cursor(cursor), **enough}
        tail = await _read_on(request, encode_cursor(begins, generation_of(cursor)), wanted, of_all)
        short = [lane for lane in begins if len(tail.lanes[lane]) < wanted]
        if of_all or not short or back >= most:
            return tail
        enough = {lane: at for lane, at in begins.items() if lane not in short}
        back = min(most, 8 * back)


async def _read_on(request: Request, start: str, wanted: int, of_all: bool) -> Tail:
    """Read from a cursor to the end, and keep what a tail needs."""
    latest, lanes, end = list[JournalEntry](), defaultdict[int, deque[int]](lambda: deque(maxlen=wanted)), start
    while True:
        page = await request.kernel.journal.list(after=end, limit=1_000, tenant=ALL if of_all else None)
        latest = _fitting(sorted([*latest, *page], key=lambda entry: entry.raw.slot)[-wanted:], request)
        for entry in page:
            position = entry.raw.position
            lanes[position.lane].append(position.seq)
        end = page[-1].cursor if page else end
        if page.next is None:
            return Tail(latest, lanes, start, end)


def _fitting(entries: list[JournalEntry], request: Request) -> list[JournalEntry]:
    """Return the last of these entries that fit into a page, at least one."""
    room = request.running.settings.answers.page_bytes - sum(entry.raw.size for entry in entries)
    first = 0
    while room < 0 and first < len(entries) - 1:
        room += entries[first].raw.size
        first += 1
    return entries[first:]


async def _back(request: Request, wanted: int) -> str:
    """Return the cursor that lies `wanted` entries of the caller's tenant before the end of each lane."""
    wanted = min(wanted, request.running.settings.answers.journal_scan)
    tail = await read_tail(request, wanted)
    before = tuple((lane, seqs[0] - 1) for lane, seqs in tail.lanes.items() if len(seqs) == wanted and seqs[0] > 1)
    rows = await request.kernel._executor.read(FindEntries(before)) if before else []
    found = {row.lane: (row.seq, text_digest(row.text)) for row in rows}
    kept = {lane: at for lane, at in decode_cursor(tail.start).items() if len(tail.lanes[lane]) < wanted}
    return encode_cursor({**kept, **found}, generation_of(tail.start))


async def show_cursor(request: Request) -> Answer:
    """Answer with the stored cursor of a named follower."""
    name = _name(request)
    kept = await find_cursor(request.kernel._executor, _whose(request), name)
    if kept is None:
        raise Problem(404, "cursor_not_found", "no follower with this name has stored a cursor yet")
    return answer(_kept(request, name, kept))


async def move_cursor(request: Request) -> Answer:
    """Store the cursor of a named follower."""
    body: MoveCursor = request.body
    name = _name(request)
    follower = text(body.follower, "follower", MAX_FOLLOWER) if body.follower else ""
    cursor = request.caller.positions.read(body.cursor)
    kept = await save_cursor(
        request.kernel._executor, _whose(request), name, cursor, body.if_version, follower=follower, op=request.op
    )
    return answer(_kept(request, name, kept))


def _kept(request: Request, name: str, kept: SavedCursor) -> KeptCursor:
    cursor, generation = request.caller.positions.show(kept.cursor), generation_of(kept.cursor)
    return KeptCursor(name, cursor, kept.follower, kept.version, at(kept.slot), generation, request.now())


async def list_records(request: Request) -> Answer:
    """List the records of one kind in order of id."""
    query: RecordsQuery = request.query
    found = await request.kernel.admin.records.list(_kind(query.kind), after=query.after, limit=query.limit)
    now = request.now()
    return await request.running.large_answers.page(
        request,
        sum([document_bytes(record.body) for record in found]),
        lambda: RecordPage([_record(record) for record in found], found.next, now),
    )


async def show_record(request: Request) -> Answer:
    """Answer with one record."""
    kind, id = request.names
    found = await request.kernel.admin.records.get(_kind(kind), id)
    if found is None:
        raise Problem(404, "record_not_found", "there is no record with this kind and id")
    return answer(RecordNow(_record(found), request.now()))


async def put_record(request: Request) -> Answer:
    """Write, replace or remove a record."""
    body: PutRecordBody = request.body
    kind, id = request.names
    done = await request.kernel.admin.records.put(
        _kind(kind), id, body.body, if_version=body.if_version, **request.call_fields(body)
    )
    headers = (REPLAYED,) if done is not None and done.replayed else ()
    return answer(RecordNow(None if done is None else _record(done), request.now()), 200, headers)


def _whose(request: Request) -> str | None:
    """Return the tenant of the follower; None for a follower of all tenants."""
    query: FollowerQuery = request.query
    return None if query.all_tenants else request.caller.tenant


def _name(request: Request) -> str:
    """Check the follower's name. Names of webhooks are reserved: moving the cursor of a webhook would make it skip deliveries."""
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
    return RecordAnswer(kind=record.kind, id=record.id, body=record.body, version=record.version, at=at(record.at),
                        replayed=record.replayed)  # fmt: skip
