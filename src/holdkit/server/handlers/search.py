"""Search: what a text may mean, in groups; and the names of entities and accounts."""

from __future__ import annotations

from ...core.validation import text
from ...wire.claims import claim_answer
from ...wire.holds import hold_answer
from ...wire.pools import pool_answer
from ...wire.search import SearchAnswer, SearchQuery
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
