"""Looking on: health, metrics, the description of the API, streams, the overview."""

from __future__ import annotations

import asyncio
from heapq import nlargest

from ...core.model import Pool
from ...errors import HoldkitError
from ..answers import Overview, PoolAnswer, WhoAmI, pool_fields
from ..metrics import exposition
from ..problems import Problem
from ..request import JSON, Answer, Request, answer

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
