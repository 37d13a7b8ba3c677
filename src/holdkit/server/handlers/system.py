"""Looking on: health, metrics, the description of the API, streams, the overview."""

from __future__ import annotations

import asyncio
from heapq import nlargest
from typing import Any

from ...core.model import Pool
from ...errors import HoldkitError
from ...kernel.limits import changes_of, in_seconds
from ..answers import (
    KeyAnswer,
    KeyPage,
    LimitsAnswer,
    Overview,
    PoolAnswer,
    SweepAnswer,
    TenantPage,
    VerifyAnswer,
    WhoAmI,
    at,
    pool_fields,
)
from ..bodies import ChangeLimitsWish, NewKeyWish, PageQuery, RotateWish, SweepWish
from ..keys import NewKey
from ..metrics import exposition
from ..problems import Problem
from ..request import JSON, Answer, Request, answer
from .calls import frame

TEXT = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


async def live(_request: Request) -> Answer:
    """Touches nothing."""
    return answer({"status": "ok"})


async def ready(request: Request) -> Answer:
    """503 when the storage does not answer, and from the moment the server is told to stop. Else what done answers survive,
    and how far this machine's clock is from the database's: no names, for whoever asks needs no key."""
    running = request.running
    if running.stopping.is_set():
        raise Problem(503, "stopping", "the server is stopping")
    try:
        async with asyncio.timeout(5):
            await running.kernel.cursor()
    except (HoldkitError, TimeoutError):
        raise Problem(503, "engine_error", "the storage does not answer") from None
    stats = running.kernel.stats
    return answer({"status": "ok", "durability": stats.durability.level, "clock_lag": stats.clock_lag})


async def metrics(request: Request) -> Answer:
    """For Prometheus; with a key, like everything else that tells something."""
    running = request.running
    return Answer(exposition(running.metrics, running.numbers()), headers=(TEXT,))


async def openapi(request: Request) -> Answer:
    """Written from the route table."""
    return Answer(request.running.openapi(), headers=(JSON,))


async def events(_request: Request) -> None:
    """Sent by the stream itself."""
    raise NotImplementedError


async def whoami(request: Request) -> Answer:
    """What the key that asks may do: so that a page offers nothing that would be refused."""
    caller = request.caller
    told = WhoAmI(
        id=caller.id,
        scope=caller.scope,
        tenant=caller.tenant,
        operator=not caller.tenant,
        open=request.running.settings.open,
        server_time=request.now(),
    )
    return answer(told)


async def overview(request: Request) -> Answer:
    """From memory: the feed keeps it current."""
    feed = request.running.feeds.get(request.kernel, request.caller.tenant)
    await feed.ready.wait()
    fullest = [PoolAnswer(**pool_fields(pool)) for pool in nlargest(20, feed.pools.values(), key=_fullness)]
    return answer(Overview(sums=feed.sums.fields(), complete=feed.complete, fullest=fullest, server_time=request.now()))


def _fullness(pool: Pool) -> tuple[float, int]:
    used = pool.held + pool.consumed
    return (used / pool.total if pool.total else float(used > 0), used)


async def sweep(request: Request) -> Answer:
    """Return what is due, of all tenants; the server does so by itself."""
    wish: SweepWish = request.body
    report = await request.kernel.sweep(wish.limit)
    holds, tenants = list(report.holds), list(report.tenants)
    return answer(SweepAnswer(report.expired, holds, tenants, report.more, at(report.scanned_slot)))


async def list_tenants(request: Request) -> Answer:
    """Those that have pools."""
    query: PageQuery = request.query
    found = await request.kernel.tenants(after=query.after, limit=query.limit)
    return answer(TenantPage(found, found[-1] if len(found) == query.limit else None, request.now()))


async def show_limits(request: Request) -> Answer:
    """As they are stored now."""
    limits = await request.kernel.limits_in_force()
    return answer(LimitsAnswer(in_seconds(limits), limits.version, request.now()))


async def change_limits(request: Request) -> Answer:
    """For all tenants: every process obeys from its next batch on."""
    wish: ChangeLimitsWish = request.body
    changes: dict[str, Any] = {**wish.limits}
    changes_of(changes)  # no name of theirs can be taken for an argument
    limits = await request.kernel.change_limits(if_version=wish.if_version, **frame(request, wish), **changes)
    return answer(LimitsAnswer(in_seconds(limits), limits.version, request.now()))


async def verify(request: Request) -> Answer:
    """Fold the whole journal and compare: one at a time."""
    running = request.running
    if running.verifying:
        raise Problem(503, "verify_running", "one is under way: wait for it", retry_after=5)
    running.verifying = True
    try:
        report = await request.kernel.verify()
    finally:
        running.verifying = False
    found = list(report.differences[:1_000])
    return answer(VerifyAnswer(report.ok, [str(one) for one in found], found, request.now()))


async def stats(request: Request) -> Answer:
    """Numbers since this server started."""
    return answer({**request.running.numbers(), "server_time": request.now()})


async def list_keys(request: Request) -> Answer:
    """The keys of your own tenant."""
    found = await request.running.keys.listed(tenant=request.caller.tenant)
    return answer(KeyPage(found, request.now()))


async def make_key(request: Request) -> Answer:
    """For your own tenant; the answer is the only place where the key is shown."""
    wish: NewKeyWish = request.body
    made = await request.running.keys.make(wish.name, scope=wish.scope, tenant=request.caller.tenant, ttl=wish.ttl)
    return await _shown(request, made, 201)


async def rotate_key(request: Request) -> Answer:
    """A new secret under the same id."""
    wish: RotateWish = request.body
    keys = request.running.keys
    return await _shown(
        request, await keys.rotate(request.names[0], grace=wish.grace, tenant=request.caller.tenant), 200
    )


async def revoke_key(request: Request) -> Answer:
    """It counts no more."""
    info = await request.running.keys.revoke(request.names[0], tenant=request.caller.tenant)
    await request.running.gate.refresh()
    return answer(info)


async def _shown(request: Request, made: NewKey, status: int) -> Answer:
    await request.running.gate.refresh()
    return answer(KeyAnswer(made.info, made.text, request.now()), status)
