"""The journal: pages of entries, and the history of a hold or a pool."""

from __future__ import annotations

from typing import Final

from ...core.validation import hold_id as check_hold_id
from ...core.validation import invalid, pool_id
from ...kernel.journal import ALL
from ...kernel.normalise import hold_id
from ...kernel.results import JournalEntry
from ...wire.journal import EntryPage, HistoryQuery, JournalQuery, entry_answer
from ..request import Answer, Request, answer

MAX_TAIL: Final = 10_000
"""Entries read to answer `last`, over all lanes."""


async def read_journal(request: Request) -> Answer:
    """A page of entries after a cursor. `next` stays the same while there are no new entries."""
    query: JournalQuery = request.query
    if query.last is not None:
        return await _tail(request, query)
    tenant = ALL if query.all_tenants else None
    entries = await request.kernel.journal(after=query.after, limit=query.limit, tenant=tenant)
    items = [entry_answer(entry, with_tenant=query.all_tenants) for entry in entries]
    return answer(EntryPage(items, items[-1].cursor if items else query.after, request.now()))


async def _tail(request: Request, query: JournalQuery) -> Answer:
    """The last entries: reads up to `last` of each lane, drops those of other tenants, and keeps the latest."""
    wanted = query.last
    assert wanted is not None
    if query.after is not None:
        raise invalid("last", "last_ambiguous", "give either `after` or `last`, not both")
    cursor = await request.kernel.cursor(back=wanted)
    found: list[JournalEntry] = []
    while len(found) < MAX_TAIL:
        page = await request.kernel.journal(after=cursor, limit=1_000, tenant=ALL if query.all_tenants else None)
        found += page
        if len(page) < 1_000:
            break
        cursor = page[-1].cursor
    last = found[-1].cursor if found else cursor
    shown = sorted(found, key=lambda entry: entry.slot)[-wanted:]  # entries of different lanes are ordered by time only
    items = [entry_answer(entry, with_tenant=query.all_tenants) for entry in shown]
    return answer(EntryPage(items, last, request.now()))


async def hold_history(request: Request) -> Answer:
    """The history of a hold."""
    return await _history(request, check_hold_id(hold_id(request.names[0]), "hold"))


async def pool_history(request: Request) -> Answer:
    """The history of a pool and of the holds on it."""
    return await _history(request, pool_id(request.names[0], "pool", faces=False))


async def _history(request: Request, subject: str) -> Answer:
    query: HistoryQuery = request.query
    entries = await request.kernel.history(subject, after=query.after, limit=query.limit)
    items = [entry_answer(entry) for entry in entries]
    return answer(EntryPage(items, items[-1].cursor if items else query.after, request.now()))
