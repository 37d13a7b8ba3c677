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
    NewPool,
    PoolEnd,
    PoolLimit,
    PoolPage,
    PoolsQuery,
    PoolTotal,
    PoolUsageAnswer,
    PoolUsagePage,
    ReturnToPool,
    pool_answer,
    pool_now,
)
from ...wire.problems import REPLAYED, Problem
from ..request import Answer, Headers, Request, answer
from .calls import call_fields

_tag: Final = re.compile(rb'"([0-9]{1,15})\.[0-9]{1,16}"')


def pool_tag(pool: Pool) -> bytes:
    """The ETag of a pool. It includes the counters, because legs expire without a new version."""
    return f'"{pool.version}.{pool.held}"'.encode()


def _pool_answer(request: Request, pool: Pool, status: int = 200) -> Answer:
    headers: Headers = ((b"etag", pool_tag(pool)),)
    if pool.replayed:
        headers = (*headers, REPLAYED)
    return answer(pool_now(shown_pool(request, pool), request.now()), status, headers)


def shown_pool(request: Request, pool: Pool) -> StoredPool:
    """The pool as the caller may see it."""
    limit = request.caller.limit
    return pool.raw if limit is None else limit.pool(pool.raw)


async def create_pool(request: Request) -> Answer:
    """Create a pool. Answers 201 also if `exist_ok` found an existing one."""
    body: NewPool = request.body
    pool = await request.kernel.create_pool(
        body.id,
        body.total,
        exist_ok=body.exist_ok,
        per_account=body.per_account,
        line=body.line,
        **call_fields(request, body),
    )
    return _pool_answer(request, pool, 201)


async def resize_pool(request: Request) -> Answer:
    """Change a pool's total; with `If-Match`, only if it was not changed since it was read."""
    body: PoolTotal = request.body
    version = _version(request.headers.get(b"if-match"))
    pool = await request.kernel.admin.resize_pool(
        request.names[0], body.total, if_version=version, **call_fields(request, body)
    )
    return _pool_answer(request, pool)


async def limit_pool(request: Request) -> Answer:
    """Change the limit per account; with `If-Match`, only if the pool was not changed since it was read."""
    body: PoolLimit = request.body
    version = _version(request.headers.get(b"if-match"))
    pool = await request.kernel.admin.limit_pool(
        request.names[0], body.per_account, if_version=version, **call_fields(request, body)
    )
    return _pool_answer(request, pool)


async def return_to_pool(request: Request) -> Answer:
    """Return units whose holds are no longer kept."""
    body: ReturnToPool = request.body
    pool = await request.kernel.admin.free(
        request.names[0], body.quantity, account=body.account, **call_fields(request, body)
    )
    return _pool_answer(request, pool)


async def remove_pool(request: Request) -> Answer:
    """Remove a pool; the answer is its last state."""
    body: PoolEnd = request.body
    return _pool_answer(request, await request.kernel.admin.remove_pool(request.names[0], **call_fields(request, body)))


async def archive_pool(request: Request) -> Answer:
    """Archive a pool; no effect if it is archived already."""
    body: PoolEnd = request.body
    return _pool_answer(
        request, await request.kernel.admin.archive_pool(request.names[0], **call_fields(request, body))
    )


async def unarchive_pool(request: Request) -> Answer:
    """Unarchive a pool; no effect if it is not archived."""
    body: PoolEnd = request.body
    return _pool_answer(
        request, await request.kernel.admin.unarchive_pool(request.names[0], **call_fields(request, body))
    )


def _version(tag: bytes | None) -> int | None:
    """The version in an ETag of ours."""
    if tag is None or tag.strip() == b"*":
        return None
    match = _tag.fullmatch(tag.strip())
    if match is None:
        raise Problem(400, "if_match_malformed", "If-Match must be the ETag of this pool, or *")
    return int(match[1])


async def show_pool(request: Request) -> Answer:
    """One pool; 304 if it is unchanged."""
    pool = await request.kernel.pool(request.names[0])
    if request.headers.get(b"if-none-match") == pool_tag(pool):
        return Answer(status=304, headers=((b"etag", pool_tag(pool)),))
    return _pool_answer(request, pool)


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
    """Searches what the caller may see."""
    limit = request.caller.limit
    if limit is None or not limit.pools:
        return AsyncFinder(request.kernel)
    return AsyncFinder(request.kernel, limit.narrowed)


async def list_children(request: Request) -> Answer:
    """The pools directly below a pool."""
    query: PageQuery = request.query
    pools = await request.kernel.pools(below=request.names[0], archived=True, after=query.after, limit=query.limit)
    return answer(PoolPage([pool_answer(shown_pool(request, pool)) for pool in pools], pools.next, request.now()))


async def account_usage(request: Request) -> Answer:
    """What an account uses, by pool."""
    query: PageQuery = request.query
    found = await request.kernel.accounts.usage(request.names[0], after=query.after, limit=query.limit)
    shown = [PoolUsageAnswer(one.pool, one.used, one.limit) for one in found]
    return answer(PoolUsagePage(shown, found.next, request.now()))
