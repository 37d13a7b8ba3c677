"""Search: what a text may mean, in groups, with bounded work; and the names of entities and accounts.

Each group is a few rows of an index from where the text would be. Only the names of pools are also searched for a part of them, some
thousands of names at a time. A key that is limited to some pools finds these and the holds on them: claims, items, entities and
accounts would tell of others.
"""

from __future__ import annotations

import re
from typing import Final

from ...core.pages import Page
from ...core.validation import text
from ...errors import InvalidRequest
from ...faces.claim import Claim
from ...kernel.results import Hold
from ...wire.claims import claim_answer
from ...wire.holds import hold_answer
from ...wire.pools import PoolsQuery, pool_answer
from ...wire.search import NamePage, NamesQuery, SearchAnswer, SearchQuery
from ..request import Answer, Request, answer
from .pools import find_pools

_HEX: Final = re.compile(r"[0-9a-f]{1,32}")


async def search(request: Request) -> Answer:
    """Find a text in everything that has a name."""
    query: SearchQuery = request.query
    if not query.q:
        return answer(_nothing(request))
    wanted, limit, kernel = text(query.q, "q", 512), query.limit, request.kernel
    pools, after = await find_pools(request, PoolsQuery(prefix=wanted, limit=limit, archived=True))
    if len(pools) < limit:
        others, after = await find_pools(request, PoolsQuery(contains=wanted, limit=limit, archived=True))
        known = {pool.id for pool in pools}
        pools = [*pools, *(pool for pool in others if pool.id not in known)][:limit]
    holds = await _holds(request, wanted, limit)
    bounded = request.caller.limit is not None and bool(request.caller.limit.pools)
    claim = None if bounded else await _claim(request, wanted)
    now = request.now(*(one.held_slot for one in holds))
    return answer(
        SearchAnswer(
            pools=[pool_answer(pool) for pool in pools],
            holds=[hold_answer(hold.row) for hold in holds],
            entities=[] if bounded else await kernel.entities(wanted, limit=limit),
            accounts=[] if bounded else await kernel.accounts(wanted, limit=limit),
            claims=[] if claim is None else [claim_answer(claim, now)],
            items=[] if bounded else await kernel.items.listed(wanted, limit=limit),
            complete=after is None or len(pools) == limit,
            server_time=now,
        )
    )


def _nothing(request: Request) -> SearchAnswer:
    return SearchAnswer(
        pools=[], holds=[], entities=[], accounts=[], claims=[], items=[], complete=True, server_time=request.now()
    )


async def _holds(request: Request, wanted: str, limit: int) -> list[Hold]:
    """The first holds whose id begins with the text, written with dashes or without."""
    begin = wanted.replace("-", "").lower()
    if _HEX.fullmatch(begin) is None:
        return []
    first = f"{max(0, int(begin.ljust(32, '0'), 16) - 1):032x}" if begin.strip("0") else ""
    found: Page[Hold] = await request.kernel.holds(after=first, limit=limit)
    limited = request.caller.limit
    return [one for one in found if one.id.startswith(begin) and (limited is None or limited.covers(one.legs))]


async def _claim(request: Request, wanted: str) -> Claim | None:
    """The claim of a key, if the text is one."""
    if ":" not in wanted:
        return None
    try:
        return await request.kernel.claims.find(key=wanted)
    except InvalidRequest:  # no key looks like this
        return None


async def list_entities(request: Request) -> Answer:
    """List the entities of holds."""
    query: NamesQuery = request.query
    return _names(request, await request.kernel.entities(query.prefix, after=query.after, limit=query.limit))


async def list_accounts(request: Request) -> Answer:
    """List the accounts that use anything."""
    query: NamesQuery = request.query
    return _names(request, await request.kernel.accounts(query.prefix, after=query.after, limit=query.limit))


def _names(request: Request, names: list[str]) -> Answer:
    query: NamesQuery = request.query
    return answer(NamePage(names, names[-1] if len(names) == query.limit else None, request.now()))
