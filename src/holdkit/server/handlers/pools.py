"""Pools: create, resize, remove, archive, read."""

from __future__ import annotations

import re
from typing import Final

from ...core.model import Pool as StoredPool
from ...core.validation import invalid
from ...faces._async.finding import AsyncFinder
from ...kernel.pool import Pool
from ...wire.fields import PageQuery
from ...wire.pools import (
    PoolPage,
    PoolsQuery,
    pool_answer,
    pool_now,
)
from ...wire.problems import REPLAYED, Problem
from ..request import Answer, Headers, Request, answer

_tag: Final = re.compile(rb'"([0-9]{1,15})\.[0-9]{1,16}"')


def pool_tag(pool: Pool) -> bytes:
    """Return the ETag of a pool. It includes the counters, because legs expire without a new version."""
    return f'"{pool.version}.{pool.held}"'.encode()


def answer_pool(request: Request, pool: Pool) -> Answer:
    """Answer with a pool as the caller may see it; 304 if it is read again and unchanged."""
    tag = (b"etag", pool_tag(pool))
    if request.operation.method == "GET" and request.headers.get(b"if-none-match") == tag[1]:
        return Answer(status=304, headers=(tag,))
    headers: Headers = (tag, REPLAYED) if pool.replayed else (tag,)
    return answer(pool_now(shown_pool(request, pool), request.now()), request.operation.status, headers)


def shown_pool(request: Request, pool: Pool) -> StoredPool:
    """Return the pool as the caller may see it."""
    limit = request.caller.limit
    return pool.raw if limit is None else limit.pool(pool.raw)


def if_match(request: Request) -> int | None:
    """Return the version of a pool from If-Match, which must have an ETag of ours."""
    tag = request.headers.get(b"if-match")
    if tag is None or tag.strip() == b"*":
        return None
    match = _tag.fullmatch(tag.strip())
    if match is None:
        raise Problem(400, "if_match_malformed", "If-Match must be the ETag of this pool, or *")
    return int(match[1])


async def list_pools(request: Request) -> Answer:
    """List pools by prefix, or by any part of the name."""
    query: PoolsQuery = request.query
    if len(query.contains) > 512:
        raise invalid("contains", "contains_too_long", "must have at most 512 characters")
    pools, after = await finder(request).pools(
        query.prefix, contains=query.contains, archived=query.archived, after=query.after, limit=query.limit
    )
    return answer(PoolPage([pool_answer(shown_pool(request, pool)) for pool in pools], after, request.now()))


def finder(request: Request) -> AsyncFinder:
    """Return a search through what the caller may see."""
    limit = request.caller.limit
    if limit is None or not limit.pools:
        return AsyncFinder(request.kernel)
    return AsyncFinder(request.kernel, limit.narrowed)


async def list_children(request: Request) -> Answer:
    """Answer with the pools directly below a pool."""
    query: PageQuery = request.query
    pools = await request.kernel.pools(below=request.names[0], archived=True, after=query.after, limit=query.limit)
    return answer(PoolPage([pool_answer(shown_pool(request, pool)) for pool in pools], pools.next, request.now()))
