"""The journal: pages, and the stories of single holds and pools."""

from __future__ import annotations

from ...core.validation import hold_id as check_hold_id
from ...core.validation import pool_id
from ...kernel.spelling import hold_id
from ..answers import EntryPage, entry_answer
from ..bodies import JournalQuery
from ..request import Answer, Request, answer


async def read_journal(request: Request) -> Answer:
    """A page behind a cursor; `next` is there as long as there are entries, and again when new ones come."""
    query: JournalQuery = request.query
    entries = await request.kernel.journal(after=query.after, limit=query.limit)
    items = [entry_answer(entry) for entry in entries]
    return answer(EntryPage(items, items[-1].cursor if items else query.after, request.now()))


async def hold_history(request: Request) -> Answer:
    """All that happened to a hold."""
    return await _history(request, check_hold_id(hold_id(request.names[0]), "hold"))


async def pool_history(request: Request) -> Answer:
    """When a pool was made, resized, removed."""
    return await _history(request, pool_id(request.names[0], "pool", faces=False))


async def _history(request: Request, subject: str) -> Answer:
    items = [entry_answer(entry) for entry in await request.kernel.history(subject)]
    return answer(EntryPage(items, None, request.now()))
