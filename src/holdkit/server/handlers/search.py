"""Search: what a text may mean, in groups; and the names of entities and accounts."""

from __future__ import annotations

from ...core.validation import text
from ...wire.claims import claim_answer
from ...wire.holds import hold_answer
from ...wire.pools import pool_answer
from ...wire.search import NamePage, NamesQuery, SearchAnswer, SearchQuery
from ..request import Answer, Request, answer
from .pools import finder, shown_pool


async def search(request: Request) -> Answer:
    """Find a text in everything that has a name."""
    query: SearchQuery = request.query
    if not query.q:
        return answer(_nothing(request))
    found = await finder(request).find(text(query.q, "q", 512), query.limit)
    now = request.now(*(one.raw.held_at for one in found.holds))
    return answer(
        SearchAnswer(
            pools=[pool_answer(shown_pool(request, pool)) for pool in found.pools],
            holds=[hold_answer(hold.raw) for hold in found.holds],
            entities=found.entities,
            accounts=found.accounts,
            claims=[claim_answer(claim, now) for claim in found.claims],
            items=found.items,
            complete=found.complete,
            server_time=now,
        )
    )


def _nothing(request: Request) -> SearchAnswer:
    return SearchAnswer(
        pools=[], holds=[], entities=[], accounts=[], claims=[], items=[], complete=True, server_time=request.now()
    )


async def list_entities(request: Request) -> Answer:
    """List the entities of holds."""
    query: NamesQuery = request.query
    return _names(request, await request.kernel.admin.entities(query.prefix, after=query.after, limit=query.limit))


async def list_accounts(request: Request) -> Answer:
    """List the accounts that use anything."""
    query: NamesQuery = request.query
    return _names(request, await request.kernel.accounts.list(query.prefix, after=query.after, limit=query.limit))


def _names(request: Request, names: list[str]) -> Answer:
    query: NamesQuery = request.query
    return answer(NamePage(names, names[-1] if len(names) == query.limit else None, request.now()))
