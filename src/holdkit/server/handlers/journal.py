"""The journal: pages of entries, and the history of a hold or a pool."""

from __future__ import annotations

from typing import Final

from ...core.validation import hold_id as check_hold_id
from ...core.validation import invalid, pool_id
from ...kernel._async.following import AsyncFollower
from ...kernel._async.journal_reads import read_page
from ...kernel.arguments import hold_id
from ...kernel.journal import ALL, whose
from ...kernel.results import JournalEntry
from ...wire.journal import EntryAnswer, EntryPage, HistoryQuery, JournalQuery, entry_answer
from ..admission import operators_only
from ..positions import BEGINNING
from ..request import Answer, Request
from .cursors import read_tail

CURSOR_OF_LANE: Final = 60
"""Bytes that a cursor takes for each lane, about; every entry has one."""


async def journal(request: Request) -> Answer:
    """Answer with a page of entries after a cursor. `cursor` stays the same while there are no new entries."""
    query: JournalQuery = request.query
    if query.include_reserved:
        operators_only(request.caller)
        request.caller.need_admin("include_reserved")
    if query.durable and (query.last is not None or query.searches):
        raise invalid(
            "durable", "durable_unsupported", "goes with reading on after a cursor, without `last` and filters"
        )
    if query.last is not None:
        return await _tail(request, query)
    if query.searches:
        return await _search(request, query)
    follower = AsyncFollower(
        request.kernel._executor,
        whose(ALL if query.all_tenants else None, request.caller.tenant),
        include_reserved=query.include_reserved,
        durable=query.durable,
    )
    entries = await read_page(follower, request.caller.cursor(query.after), query.limit)
    return await _entries(request, entries, entries.more, query.after, with_tenant=query.all_tenants)


async def _search(request: Request, query: JournalQuery) -> Answer:
    """Return the entries that match, newest first unless the query continues after a cursor."""
    caller = request.caller
    after = caller.cursor(query.after)
    if query.order == "oldest" and after is None and query.before is None:
        after = BEGINNING
    if after is not None and query.order == "newest":
        raise invalid("after", "after_ambiguous", "newest first: give `before` instead of `after`")
    entries = await request.kernel.journal.search(
        action=query.action, subject=query.subject, actor=query.actor, correlation_id=query.correlation_id,
        before=caller.cursor(query.before), after=after, limit=query.limit, tenant=ALL if query.all_tenants else None,
        include_reserved=query.include_reserved,
    )  # fmt: skip
    now = request.now()

    def page() -> EntryPage:
        shown = _shown(request, entries, with_tenant=query.all_tenants)
        end = caller.positions.show(entries.cursor)
        return EntryPage(shown, None if entries.next is None else end, end, now)

    return await request.running.large_answers.page(request, _size(request, entries), page)


async def _entries(
    request: Request, entries: list[JournalEntry], more: bool, after: str | None, *, with_tenant: bool = False
) -> Answer:
    now = request.now()

    def page() -> EntryPage:
        items = _shown(request, entries, with_tenant=with_tenant)
        end, limit = items[-1].cursor if items else after or BEGINNING, request.caller.limit
        return EntryPage(items if limit is None else limit.entries(items), end if more else None, end, now)

    return await request.running.large_answers.page(request, _size(request, entries), page)


def _size(request: Request, entries: list[JournalEntry]) -> int:
    """Estimate the bytes of a page of entries, each with its cursor."""
    cursors = len(entries) * CURSOR_OF_LANE * request.kernel._executor.engine.lanes
    return sum([entry.raw.size for entry in entries]) + cursors


def _shown(request: Request, entries: list[JournalEntry], *, with_tenant: bool = False) -> list[EntryAnswer]:
    """Return entries as the caller may see them."""
    positions = request.caller.positions
    return [
        entry_answer(entry, positions.position, positions.cursor_behind(entry), with_tenant=with_tenant)
        for entry in entries
    ]


async def _tail(request: Request, query: JournalQuery) -> Answer:
    """Answer with the last entries. Entries of different lanes are ordered by time only."""
    wanted = query.last
    assert wanted is not None
    if query.after is not None or query.searches or query.include_reserved:
        raise invalid("last", "last_ambiguous", "give either `after` or `last`, not both, and no filter beside `last`")
    tail = await read_tail(request, wanted, of_all=query.all_tenants)
    now = request.now()

    def page() -> EntryPage:
        items = _shown(request, tail.latest, with_tenant=query.all_tenants)
        return EntryPage(items, None, request.caller.positions.show(tail.end), now)

    return await request.running.large_answers.page(request, sum(entry.raw.size for entry in tail.latest), page)


async def hold_history(request: Request) -> Answer:
    """Answer with the history of a hold."""
    query: HistoryQuery = request.query
    hold = check_hold_id(hold_id(request.names[0]), "hold")
    page = await request.kernel.history(hold, after=request.caller.cursor(query.after), limit=query.limit)
    return await _entries(request, page, page.next is not None, query.after)


async def pool_history(request: Request) -> Answer:
    """Answer with the history of a pool and of the holds on it."""
    query: HistoryQuery = request.query
    pool = pool_id(request.names[0], "pool", faces=False)
    page = await request.kernel.journal.history(pool, after=request.caller.cursor(query.after), limit=query.limit)
    return await _entries(request, page, page.next is not None, query.after)
