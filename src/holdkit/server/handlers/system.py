"""The system itself: health, metrics, the OpenAPI document, the overview, statistics, maintenance, limits and API keys."""

from __future__ import annotations

import asyncio
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...core.audit_rows import Difference
from ...engines.port import Engine
from ...engines.progress import Progress
from ...errors import HoldkitError
from ...kernel.erasing import check_reason, selector_of
from ...kernel.limits import changes_of, in_seconds
from ...kernel.measures import Measure, pool_measures, pool_queries
from ...kernel.verification import sealed_through, verify_whole
from ...wire.fields import at, encode
from ...wire.keys import KeyAnswer, KeyPage, NewKeyBody, RevokeKeyBody, RotateKeyBody, WhoAmI
from ...wire.pools import pool_answer
from ...wire.problems import REPLAYED, Problem
from ...wire.stats import Live, Overview, Ready
from ...wire.system import ChangeLimitsBody, EraseBody, ErasedAnswer, LimitsAnswer, SweepAnswer, SweepBody, VerifyAnswer
from ..jobs import Job
from ..keys import NewKey, shown
from ..metrics import exposition
from ..request import JSON, Answer, Request, answer
from ..settings import Settings
from ..tenants import check_tenant
from .jobs import started

if TYPE_CHECKING:
    from ..application import Running

MAX_DIFFERENCES: Final = 1_000
MAX_DIFFERENCE_TEXT: Final = 1_000_000
"""Characters of all differences together: each appears twice in the answer."""


async def livez(_request: Request) -> Answer:
    """Answer without touching the storage."""
    return answer(Live("ok"))


async def readyz(request: Request) -> Answer:
    """Answer 503 if the storage does not answer, and while the server stops; otherwise with the durability level and the clock skew. No
    names, because this route needs no API key."""
    running = request.running
    if running.stopping.is_set() or running.draining:
        raise Problem(503, "stopping", "the server is shutting down")
    try:
        async with asyncio.timeout(5):
            await running.kernel.journal.cursor()
    except (HoldkitError, TimeoutError):
        raise Problem(503, "engine_error", "the storage does not answer: see the server's log") from None
    stats = running.kernel._executor.stats
    return answer(Ready("ok", stats.durability.level, stats.clock_lag, running.limits.room.state))


async def metrics(request: Request) -> Answer:
    """Answer with metrics for Prometheus; needs an API key."""
    running = request.running
    accept = request.headers.get(b"accept", b"")
    measures = [*running.measures(), *(await _pools(running) if running.metric_pools else ())]
    body, kind = exposition(measures, accept)
    return Answer(body, headers=((b"content-type", kind.encode()),))


async def _pools(running: Running) -> list[Measure]:
    """Return gauges of the pools that the settings name. If they cannot be read, the other metrics are served without them."""
    try:
        answers = [await running.kernel._executor.read(query) for query in pool_queries(running.metric_pools)]
    except HoldkitError:
        answers = None
    return [*pool_measures(answers)]


async def openapi(request: Request) -> Answer:
    """Answer with the OpenAPI document."""
    return Answer(request.running.openapi(), headers=(JSON,))


async def whoami(request: Request) -> Answer:
    """Answer with what the caller's API key may do, so that a page offers only what is allowed."""
    caller = request.caller
    result = WhoAmI(
        id=caller.id,
        scope=caller.scope,
        tenant=caller.tenant,
        operator=caller.operator,
        pools=() if caller.limit is None else caller.limit.pools,
        verbs=() if caller.limit is None else tuple(sorted(caller.limit.verbs)),
        open=request.running.settings.open,
        server_time=request.now(),
    )
    return answer(result)


async def overview(request: Request) -> Answer:
    """Answer from memory, which the feed keeps current."""
    feed = request.running.feeds.get(request.kernel, request.caller.tenant)
    feed.watchers += 1  # so that it is not closed meanwhile
    try:
        await feed.ready.wait()
        fullest = [pool_answer(pool) for pool in await feed.fullest(request.running.large_answers.off_loop)]
    finally:
        feed.watchers -= 1
    return answer(
        Overview(sums=feed.sums.document(), complete=feed.complete, fullest=fullest, server_time=request.now())
    )


async def sweep(request: Request) -> Answer:
    """Expire due holds of all tenants; the server also does this by itself."""
    body: SweepBody = request.body
    report = await request.kernel.sweep(body.limit)
    holds, tenants = list(report.holds), list(report.tenants)
    return answer(SweepAnswer(report.expired, holds, tenants, report.more, at(report.scanned_at)))


async def show_limits(request: Request) -> Answer:
    """Show the stored limits."""
    limits = await request.kernel.admin.limits()
    return answer(LimitsAnswer(in_seconds(limits), limits.version, request.now()))


async def change_limits(request: Request) -> Answer:
    """Change limits for all tenants; every process applies them from its next batch on."""
    body: ChangeLimitsBody = request.body
    changes: dict[str, Any] = {**body.limits}
    changes_of(changes)  # so that no name is mistaken for another argument
    limits = await request.kernel.admin.change_limits(
        if_version=body.if_version, **request.call_fields(body), **changes
    )
    return answer(LimitsAnswer(in_seconds(limits), limits.version, request.now()))


async def verify(request: Request) -> Answer:
    """Start a job that replays the whole journal and compares; one at a time."""
    executor = request.kernel._executor

    async def work(job: Job) -> bytes:
        found = await job.in_thread(lambda: first_differences(executor.engine, job.report))
        sealed = await job.in_thread(lambda: sealed_through(executor.engine))
        lanes = {str(lane): last for lane, last in sealed.items()}
        return encode(VerifyAnswer(not found, [str(one) for one in found], found, at(executor.now()), lanes))

    return started(request, request.running.jobs.start("verify", request.caller.tenant, work, op=request.op))


async def erase(request: Request) -> Answer:
    """Start a job that erases a person's data; one at a time. After an interruption, repeat the request to erase the rest."""
    body: EraseBody = request.body
    running, caller = request.running, request.caller
    if body.tenant:
        check_tenant(body.tenant)
    selector_of(body.by, body.value, body.tenant)
    if not body.dry_run:
        check_reason(body.reason)
    kernel = running.kernel.tenant(body.tenant) if body.tenant else running.kernel
    fields = {name: value for name, value in request.call_fields(body).items() if name != "op"}

    archive = _archive_of(running.settings, kernel._executor.engine)

    async def work(job: Job) -> bytes:
        erased = await kernel.admin.erase(
            body.by, body.value, dry_run=body.dry_run, progress=job.report, archive=archive, **fields
        )
        return encode(ErasedAnswer(erased.found or erased.resumed, erased, at(kernel._executor.now())))

    return started(request, running.jobs.start("erase", caller.tenant, work))


def _archive_of(settings: Settings, engine: Engine) -> str | None:
    """Return the directory of the archive files; it may be set before anything is archived."""
    place = settings.journal.archive
    there = place is not None and engine.capabilities.archive is not None and Path(place).is_dir()
    return place if there else None


def first_differences(engine: Engine, progress: Progress) -> list[Difference]:
    """Verify the data and return the first differences: at most `MAX_DIFFERENCES`, of `MAX_DIFFERENCE_TEXT` characters together, and
    the first one in any case."""
    found: list[Difference] = []
    size = 0
    with closing(verify_whole(engine, progress)) as differences:
        for one in islice(differences, MAX_DIFFERENCES):
            size += len(str(one))
            if found and size > MAX_DIFFERENCE_TEXT:
                break
            found.append(one)
    return found


async def stats(request: Request) -> Answer:
    """Answer with statistics since this server started."""
    return answer({**request.running.numbers(), "server_time": request.now()})


async def list_keys(request: Request) -> Answer:
    """List the API keys of the caller's tenant."""
    admission, now = request.running.admission, request.kernel._executor.now()
    directory, use = admission.directory, admission.use
    await directory.refresh()
    await use.refresh()
    found = [
        shown(key, now, use.last(key.id))
        for key in sorted(directory.keys_of(request.caller.tenant), key=lambda key: key.id)
    ]
    return answer(KeyPage(found, request.now()))


async def make_key(request: Request) -> Answer:
    """Create an API key for the caller's tenant; only this answer shows it."""
    body: NewKeyBody = request.body
    running, tenant = request.running, request.caller.tenant
    made = await running.keys.asked_by(request.kernel).make(
        body.name,
        scope=body.scope,
        tenant=tenant,
        ttl=body.ttl,
        pools=body.pools,
        verbs=body.verbs,
        most=running.settings.tenants.max_keys,
        siblings=running.admission.directory.keys_of(tenant),
        **request.call_fields(body),
    )
    return await _shown(request, made, 201)


async def rotate_key(request: Request) -> Answer:
    """Give an API key a new secret."""
    body: RotateKeyBody = request.body
    keys = request.running.keys.asked_by(request.kernel)
    fields = request.call_fields(body)
    made = await keys.rotate(request.names[0], grace=body.grace, tenant=request.caller.tenant, **fields)
    return await _shown(request, made, 200)


async def revoke_key(request: Request) -> Answer:
    """Revoke an API key."""
    body: RevokeKeyBody = request.body
    keys = request.running.keys.asked_by(request.kernel)
    info = await keys.revoke(request.names[0], tenant=request.caller.tenant, **request.call_fields(body))
    await request.running.admission.refresh()
    return answer(info)


async def _shown(request: Request, made: NewKey, status: int) -> Answer:
    await request.running.admission.refresh()
    headers = (REPLAYED,) if made.replayed else ()
    return answer(KeyAnswer(made.info, made.text, request.now()), status, headers)
