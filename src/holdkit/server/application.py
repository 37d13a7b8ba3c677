"""The ASGI application and its lifespan. It can be mounted anywhere, and denies by default.

The order of checks is part of the contract: path → stopping → API key → scope → rate → overload → query → body → handler.
Nothing is read or stored for a request that fails an earlier check. Errors are sent as problem documents, never as tracebacks;
a secret is never sent and never logged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

from ..engines.clocks import Clock
from ..errors import HoldkitError
from ..faces._async.kernel import AsyncKernel
from ..faces.opening import connect_async
from ..kernel._async.background import AsyncSweeper
from ..kernel.measures import Measure, allowed_pools, read_pool_measures
from ..kernel.seals import Sealing
from ..kernel.tracing import Tracer
from ..operations import OPERATIONS
from ..wire.fields import at
from ._async.keystore import AsyncKeys
from ._async.tenants import AsyncTenants
from .admission import Admission
from .bounds import bounds_of
from .dispatch import Table, dispatch
from .feed import Feeds
from .jobs import Jobs
from .large_answers import LargeAnswers
from .limits import Limits, Timeouts
from .metrics import Metrics, server_measures
from .openapi import openapi_json
from .places import PlaceWatch
from .quotas import Quotas
from .request import CLOSE_CONNECTION, Receive, Request, Scope, Send
from .rollups import Rollups
from .room import open_room
from .settings import Journal, Settings, secret_from_environment
from .static import Static
from .streams import Streams
from .tracing import dispatch_traced
from .webhooks.sender import WebhookSender

log = logging.getLogger("holdkit.server")

MAINTAIN_EVERY: Final = 10.0
"""Seconds between two rounds of background maintenance."""


Source: TypeAlias = AsyncKernel | str | Callable[[], AsyncKernel]
"""A kernel, a URL to open, or a function that has the kernel once the application starts."""


class Running:
    """The state of a running application: kernel, API keys, sweeper, feeds, webhooks, counters."""

    def __init__(self, kernel: AsyncKernel, settings: Settings, pepper: bytes | None, table: Table) -> None:
        self.kernel, self.settings, self.table = kernel, settings, table
        self.requests = settings.requests
        """The bounds of a request, without the way over `settings`."""
        self.keys = AsyncKeys(kernel, pepper=pepper)
        self.tenants = AsyncTenants(kernel, self.keys)
        self.admission = Admission(kernel, self.keys, self.tenants, settings)
        self.quotas = Quotas(kernel._executor, self.admission.directory, settings)
        self.feeds = Feeds(settings.streams.max_feeds)
        self.webhook_sender = WebhookSender(
            kernel._executor,
            settings.webhooks,
            server_secret=pepper,
            disabled=self.admission.directory.disabled,
            positions=self.admission.positions,
        )
        self.metrics = Metrics()
        self.metric_pools = allowed_pools(settings.metrics.pools)
        self.timeouts = Timeouts()
        self.sweeper: AsyncSweeper | None = None
        self.bounds = bounds_of(settings)
        self.limits = Limits(settings, self.bounds, self.quotas)
        self.connections: Callable[[], dict[str, int]] | None = None
        """Counts the connections, if the server is ours."""
        self.draining = False
        """The server will stop soon: `/readyz` says so, everything else is still served."""
        self.stopping = asyncio.Event()
        self.jobs = Jobs(settings, kernel._executor.now)
        self.large_answers = LargeAnswers(settings)
        self.streams = Streams(self)
        self.places = PlaceWatch(kernel._executor)
        self.admission.on_refresh = self.streams.end_refused
        self.rollups = Rollups(kernel._executor, self.metrics)
        self.exporting = False
        self.clock = kernel._executor.engine.clock
        self.began = self.clock()
        self._openapi: bytes | None = None

    def openapi(self) -> bytes:
        """Return the OpenAPI document, built once."""
        if self._openapi is None:
            self._openapi = openapi_json(OPERATIONS)
        return self._openapi

    def numbers(self) -> dict[str, Any]:
        """Return the statistics of `/v1/stats` and `/metrics`."""
        stats, metrics, sweeper = self.kernel._executor.stats, self.metrics, self.sweeper
        refusals = {
            f"{kind}.{outcome}": n for (kind, outcome), n in sorted(metrics.commands.items()) if outcome != "done"
        }
        return {
            "since": at(self.began),
            "requests": metrics.requests,
            "done": {kind: n for (kind, outcome), n in sorted(metrics.commands.items()) if outcome == "done"},
            "refused": refusals,
            "latency": {name: metrics.quantile(part) for name, part in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))},
            "batches": {
                "count": stats.batches,
                "commands": stats.commands,
                "largest": stats.largest,
                "sizes": list(stats.sizes),
            },
            "lock_times": stats.lock_times,
            "guards": {
                "batches": stats.guards.batches,
                "commands": stats.guards.commands,
                "passed": stats.guards.passed,
                "returned": stats.guards.returned,
                "misses": dict(sorted(stats.guards.misses.items())),
            },
            "queue": stats.waiting,
            "durability": stats.durability,
            "clock_lag": stats.clock_lag,
            "sweeper": {
                "running": sweeper is not None,
                "sweeps": 0 if sweeper is None else sweeper.sweeps,
                "expired": 0 if sweeper is None else sweeper.expired,
                "lag": 0.0 if sweeper is None else round(time.monotonic() - sweeper.caught_up, 3),
            },
            "webhooks": self.webhook_sender.numbers(),
            "streams": self.streams.shares.used,
            "in_work": self.limits.in_work,
            "full_quotas": self.quotas.full,
            "disk": self.limits.room.document(),
            "connections": None if self.connections is None else self.connections(),
        }

    def measures(self) -> Iterable[Measure]:
        """Yield what `/metrics` shows, except pools, which must be read."""
        return server_measures(self.metrics, self.numbers(), self.kernel._executor.stats)

    def plain_headers(self, request: Request) -> list[tuple[str, str]]:
        """Return the headers that every answer carries, for streams."""
        return [("X-Request-Id", request.id), ("X-Content-Type-Options", "nosniff")]

    def stop(self) -> None:
        """Refuse new requests from now on, and end the streams."""
        self.stopping.set()
        self.streams.wake()


class Application:
    """An ASGI application that serves one kernel. Made by `holdkit.server.app`."""

    def __init__(
        self,
        source: Source,
        *,
        settings: Settings | None = None,
        pepper: bytes | None = None,
        clock: Clock | None = None,
        check: Callable[[Running], None] | None = None,
    ) -> None:
        self._source, self._clock, self._check = source, clock, check
        self.settings = settings or Settings()
        self.requests = self.settings.requests
        self._pepper = secret_from_environment() if pepper is None else pepper
        self.table = Table(OPERATIONS)
        self.static = Static()
        self.running: Running | None = None
        self.failed: HoldkitError | None = None
        """Why the application did not start, or did not stop cleanly."""
        self._tracer: Tracer | None = None

    async def _open(self, url: str) -> AsyncKernel:
        settings = self.settings
        kernel = await connect_async(
            url,
            clock=self._clock,
            schema=settings.schema,
            pool_size=settings.pool_size,
            notify_url=settings.notify_url,
        )
        stored = kernel._executor.engine.stored
        stored.bound(
            max_touched_legs=settings.requests.max_touched_legs, audit_refusals=settings.journal.audit_refusals
        )
        return kernel

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[Running]:
        """Open, run and close the application. A host that mounts it enters this in its own lifespan."""
        source, ours, upkeep = self._source, isinstance(self._source, str), self.settings.upkeep
        if isinstance(source, str):
            kernel = await self._open(source)
        else:
            kernel = source if isinstance(source, AsyncKernel) else source()
        if self.settings.metrics.opentelemetry and kernel._executor.tracer is None:
            kernel = _instrumented(kernel)
        self._tracer = kernel._executor.tracer
        running = Running(kernel, self.settings, self._pepper, self.table)
        tasks: list[asyncio.Task[None]] = []
        try:
            await running.admission.refresh()
            running.limits.room = await open_room(kernel._executor, self.settings.journal.min_free)
            if self._check is not None:
                self._check(running)
            if upkeep.sweep_every:
                running.sweeper = kernel.sweeper(every=upkeep.sweep_every, seals=_sealing(self.settings.journal))
            tasks = [
                asyncio.create_task(running.admission.stay_current()),
                asyncio.create_task(running.quotas.stay_current()),
                asyncio.create_task(_maintain(running)),
                asyncio.create_task(running.rollups.run()),
            ]
            self.running = running
            if self.settings.metrics.opentelemetry:
                _report(running)
            yield running
        finally:
            running.stop()
            await self._finish(running, tasks)
            self.running = self._tracer = None
            if ours:
                await kernel.close()

    async def _finish(self, running: Running, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for running requests, up to `requests.stop_timeout`; then end the background tasks."""
        try:
            async with asyncio.timeout(self.requests.stop_timeout):
                await running.limits.idle.wait()
        except TimeoutError:
            log.warning(
                "%d requests were still running when the server stopped",
                running.limits.in_work,
                extra={"event": "requests_cut_off", "count": running.limits.in_work},
            )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await running.jobs.close(self.requests.stop_timeout)
        await running.quotas.close()
        await running.feeds.close()
        running.large_answers.close()
        await running.webhook_sender.close()
        if running.sweeper is not None:
            await running.sweeper.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI connection: a request, or the lifespan."""
        if scope["type"] == "http":
            try:
                if self._tracer is None:
                    await dispatch(self, scope, receive, send)
                else:
                    await dispatch_traced(self, self._tracer, scope, receive, send)
            except asyncio.CancelledError:  # by the server, whose stop has reached its time limit
                close = scope.get("state", {}).get(CLOSE_CONNECTION)
                if close is None or self.running is None or not self.running.stopping.is_set():
                    raise
                close()  # the client learns that the effect is unknown
        elif scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1003})

    async def _live(self, receive: Receive, send: Send) -> None:
        """Speak the lifespan protocol, when the application is not mounted."""
        await receive()
        began = False
        try:
            async with self.lifespan():
                began = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except HoldkitError as failed:
            self.failed = failed
            await send({"type": f"lifespan.{'shutdown' if began else 'startup'}.failed", "message": str(failed)})
            return
        await send({"type": "lifespan.shutdown.complete"})


def _instrumented(kernel: AsyncKernel) -> AsyncKernel:
    from ..contrib.opentelemetry import instrument  # without the package: an EngineError that names the extra

    return instrument(kernel)


def _report(running: Running) -> None:
    from ..contrib.opentelemetry.instruments import Recent, measure_source

    measure_source(lambda: () if running.stopping.is_set() else running.measures())
    executor, allowed = running.kernel._executor, running.metric_pools
    recent = Recent(lambda: read_pool_measures(executor, allowed))
    measure_source(lambda: () if running.stopping.is_set() else recent())


def _sealing(journal: Journal) -> Sealing | None:
    if journal.seal_after is None:
        return None
    return Sealing(after=journal.seal_after, key=journal.seal_key, anchor=journal.seal_anchor)


async def _maintain(running: Running) -> None:
    """Run the background work, webhooks first: a server with many webhooks answers requests before it has found all of them."""
    while True:
        try:
            await running.webhook_sender.sync_all()
            await running.admission.directory.maintain()
            await running.admission.use.maintain(running.admission.directory.keys)
        except HoldkitError as failed:
            log.warning("background maintenance failed, will retry: %s", failed, extra={"event": "maintenance_failed"})
        await asyncio.sleep(MAINTAIN_EVERY)
        await running.feeds.close_idle()
