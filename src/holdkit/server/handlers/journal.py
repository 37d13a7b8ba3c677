"""The journal: pages of entries, and the history of a hold or a pool."""

from __future__ import annotations

from ...core.validation import hold_id as check_hold_id
from ...core.validation import invalid, pool_id
from ...kernel.journal import ALL
from ...kernel.normalise import hold_id
from ...kernel.results import JournalEntry
from ...wire.journal import EntryAnswer, EntryPage, HistoryQuery, JournalQuery, entry_answer
from ..request import Answer, Request, answer
from .cursors import read_tail


async def read_journal(request: Request) -> Answer:
    """A page of entries after a cursor. `next` stays the same while there are no new entries."""
    query: JournalQuery = request.query
    if query.last is not None:
        return await _tail(request, query)
    tenant = ALL if query.all_tenants else None
    after = request.caller.cursor(query.after)
    entries = await request.kernel.journal(after=after, limit=query.limit, tenant=tenant)
    items = _shown(request, entries, with_tenant=query.all_tenants)
    return answer(EntryPage(items, items[-1].cursor if items else query.after, request.now()))


def _shown(request: Request, entries: list[JournalEntry], *, with_tenant: bool = False) -> list[EntryAnswer]:
    """Entries as the caller may see them."""
    positions = request.caller.positions
    return [
        entry_answer(entry, positions.position, positions.cursor_behind(entry), with_tenant=with_tenant)
        for entry in entries
    ]


async def _tail(request: Request, query: JournalQuery) -> Answer:
    """The last entries. Entries of different lanes are ordered by time only."""
    wanted = query.last
    assert wanted is not None
    if query.after is not None:
        raise invalid("last", "last_ambiguous", "give either `after` or `last`, not both")
    tail = await read_tail(request, wanted, of_all=query.all_tenants)
    items = _shown(request, tail.latest, with_tenant=query.all_tenants)
    return answer(EntryPage(items, request.caller.positions.show(tail.end), request.now()))


async def hold_history(request: Request) -> Answer:
    """The history of a hold."""
    return await _history(request, check_hold_id(hold_id(request.names[0]), "hold"))


async def pool_history(request: Request) -> Answer:
    """The history of a pool and of the holds on it."""
    return await _history(request, pool_id(request.names[0], "pool", faces=False))


async def _history(request: Request, subject: str) -> Answer:
    query: HistoryQuery = request.query
    entries = await request.kernel.history(subject, after=request.caller.cursor(query.after), limit=query.limit)
    items = _shown(request, entries)
    return answer(EntryPage(items, items[-1].cursor if items else query.after, request.now()))
