"""Delivery of webhooks: one task per webhook follows the journal as a named follower, so that its cursor survives the process.
If there are several servers, the one that has the webhook's lease delivers.

A delivery is retried with growing pauses, then parked, and the next one follows: a bad entry or a dead receiver blocks no other
webhook, and no hold ever waits for one. Redirects are not followed, and of an answer only the status is read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

import httpx

from ...core.model import SECOND
from ...engines.clocks import Clock, wall_clock
from ...errors import CursorLost, HoldkitError
from ...faces._async.kernel import AsyncKernel
from ...kernel._async.following import AsyncFollower
from ...kernel.follower_state import CursorFile
from ...kernel.record_lease import LeaseLost, RecordLease
from ...kernel.results import JournalEntry
from ..settings import Delivery
from .hooks import LEASES, MAX_PARKED, TOO_LARGE, Hook, Hooks, Parked, follower_name, tenants_with_hooks
from .requests import Resolver, TargetRefused, envelope, event_id, pin, signed_headers, system_resolver

log = logging.getLogger("holdkit.server")

PAGE: Final = 500
STORE_EVERY: Final = 20
"""Deliveries after which the cursor is stored: at most this many are repeated if a server dies."""
POLL: Final = 0.5
TRUNCATED: Final = "the journal was truncated by a failover or a restore"
LOST: Final = 30.0
"""Seconds until a webhook whose cursor is lost is tried again."""


class Stopped(Exception):
    """The webhook is no longer active."""


class WebhookSender:
    """Delivers the webhooks of all tenants."""

    def __init__(
        self,
        delivery: Delivery,
        *,
        resolve: Resolver = system_resolver,
        clock: Clock = wall_clock,
        disabled: AbstractSet[str] = frozenset(),
    ) -> None:
        """`disabled` names the tenants whose webhooks pause; it may change."""
        self._delivery, self._resolve, self._clock, self._disabled = delivery, resolve, clock, disabled
        self._http = httpx.AsyncClient(timeout=delivery.seconds, follow_redirects=False, trust_env=False)
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.delivered = self.failed = self.parked = 0

    async def sync(self, kernel: AsyncKernel, tenant: str) -> None:
        """Start a task for each active webhook of a tenant, and stop the tasks of the others."""
        hooks = Hooks(kernel.executor, tenant)
        listed = [] if tenant in self._disabled else await hooks.listed()
        active = {hook.id: hook for hook in listed if hook.state == "active"}
        for owner, id in list(self._tasks):
            if owner == tenant and (id not in active or self._tasks[owner, id].done()):
                await _end(self._tasks.pop((owner, id)))
        for id, hook in active.items():
            if (tenant, id) not in self._tasks:
                self._tasks[tenant, id] = asyncio.create_task(self._run(kernel, hooks, hook), name="holdkit-webhook")

    async def sync_all(self, kernel: AsyncKernel) -> None:
        """The same for all tenants that have webhooks."""
        for tenant in await tenants_with_hooks(kernel.executor):
            await self.sync(kernel.tenant(tenant) if tenant else kernel, tenant)

    async def _run(self, kernel: AsyncKernel, hooks: Hooks, hook: Hook) -> None:
        lease = RecordLease(kernel.executor, (hooks.tenant, LEASES, hook.id), 2 * self._delivery.seconds)
        try:
            while not kernel.closed:
                await self._deliver_while_leased(kernel, hooks, hook, lease)
        except Stopped:
            return
        finally:
            if not kernel.closed:
                await lease.release()

    async def _deliver_while_leased(self, kernel: AsyncKernel, hooks: Hooks, hook: Hook, lease: RecordLease) -> None:
        try:
            await lease.wait_until_free()
            await self._follow(kernel, hooks, hook, lease)
        except LeaseLost:
            return
        except CursorLost as lost:
            if lost.missing:  # delivered entries are gone: an operator must know before more is sent
                log.warning("webhook %s is stopped: %s", hook.id, lost)
                await hooks.set_state(
                    hook, "stopped", f"{TRUNCATED}: at least {lost.missing} of the delivered entries are gone"
                )
                raise Stopped from None
            log.warning("webhook %s is waiting: %s", hook.id, lost)
            await asyncio.sleep(LOST)
        except HoldkitError as failed:
            if not kernel.closed:
                log.warning("webhook %s cannot continue, will retry: %s", hook.id, failed)
                await asyncio.sleep(1.0)

    async def _follow(self, kernel: AsyncKernel, hooks: Hooks, hook: Hook, lease: RecordLease) -> None:
        """Deliver from the stored cursor, until the kernel closes or another server may have moved the cursor."""
        executor = kernel.executor
        follower = AsyncFollower(executor, hooks.tenant, follower_name(hook.id), store=self._store(hook.id))
        await follower.begin(hook.after or None)
        committed = executor.committed
        executor.listen()
        while not committed.closed:
            count = committed.count
            entries = await follower.page(PAGE)
            if entries:
                if await lease.acquire():  # another server may have delivered these entries
                    await _check_active(hooks, hook)
                    return
                await self._deliver_all(hooks, hook, lease, follower, entries)
            if follower.at_end:
                await committed.wait(count, POLL)

    def _store(self, id: str) -> CursorFile | None:
        state = self._delivery.state
        return None if state is None else CursorFile(Path(state) / f"webhook-{id}.cursor")

    async def forget(self, kernel: AsyncKernel, tenant: str, id: str) -> None:
        """Stop checking whether the entries that a webhook was sent still exist."""
        kernel.executor.shown.forget((tenant, follower_name(id)))
        store = self._store(id)
        if store is not None:
            await kernel.executor.run_blocking(store.forget)

    async def _deliver_all(
        self, hooks: Hooks, hook: Hook, lease: RecordLease, follower: AsyncFollower, entries: list[JournalEntry]
    ) -> None:
        last: JournalEntry | None = None
        unstored = 0
        try:
            for entry in entries:
                if not entry.part and (not hook.actions or entry.action in hook.actions):
                    await self._deliver(hooks, hook, lease, entry)
                    unstored += 1
                last = entry
                if unstored == STORE_EVERY:
                    unstored = 0
                    await follower.save_cursor(last)
        except (asyncio.CancelledError, Stopped):
            if unstored:  # so that accepted deliveries are not repeated
                await follower.save_cursor(last)
            raise
        await follower.save_cursor()

    async def _deliver(self, hooks: Hooks, hook: Hook, lease: RecordLease, entry: JournalEntry) -> None:
        id = event_id(hook.id, entry)
        body = envelope(self._delivery.source, id, entry)
        why = ""
        for pause in (*self._delivery.pauses, None):
            await lease.keep()
            why = await self.attempt(hook, id, body)
            if not why:
                return
            if why == "gone":
                await hooks.set_state(hook, "stopped", "the receiver answered 410")
                raise Stopped
            if pause is not None:
                await lease.sleep(pause)
        self.parked += 1
        await hooks.park(Parked(id=id, body=body.decode(), why=why))
        if len(await hooks.parked(hook.id)) >= MAX_PARKED:
            await hooks.set_state(hook, "stopped", f"{MAX_PARKED} deliveries are parked, the maximum")
            raise Stopped

    async def attempt(self, hook: Hook, id: str, body: bytes) -> str:
        """Deliver once; returns an empty text, or why it failed. The body of the answer is never stored: it is untrusted."""
        try:
            async with asyncio.timeout(self._delivery.seconds):
                target = await pin(hook.url, self._delivery.allowed, self._resolve)
                headers = signed_headers(id, self._clock() // SECOND, body, hook.secret) | {"host": target.authority}
                named = {"sni_hostname": target.host}
                async with self._http.stream(
                    "POST", target.url, content=body, headers=headers, extensions=named
                ) as answer:
                    status = answer.status_code
        except TargetRefused as refused:
            return self._failed(str(refused))
        except (httpx.HTTPError, TimeoutError, OSError) as failed:
            return self._failed(type(failed).__name__)
        if 200 <= status < 300:
            self.delivered += 1
            return ""
        return self._failed("gone" if status == 410 else f"the receiver answered {status}")

    def _failed(self, why: str) -> str:
        self.failed += 1
        return why

    async def replay(self, hooks: Hooks, hook: Hook) -> tuple[int, int]:
        """Retry all parked deliveries; returns how many were accepted and how many remain."""
        taken = 0
        parked = await hooks.parked(hook.id)
        for one in parked:
            body = await self._parked_body(hooks, one)
            if body is not None and not await self.attempt(hook, one.id, body):
                await hooks.unpark(one.id)
                taken += 1
        return taken, len(parked) - taken

    async def _parked_body(self, hooks: Hooks, parked: Parked) -> bytes | None:
        """The event; None if it was too large to store and the journal was pruned since."""
        if parked.body != TOO_LARGE:
            return parked.body.encode()
        entry = await hooks.entry(parked.id)
        return None if entry is None else envelope(self._delivery.source, parked.id, entry)

    async def close(self) -> None:
        """Stop all tasks; each continues from its cursor when a server starts again."""
        await _end(*self._tasks.values())
        self._tasks.clear()
        await self._http.aclose()


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _check_active(hooks: Hooks, hook: Hook) -> None:
    """Raise `Stopped` if another server has stopped or removed the webhook."""
    found = await hooks.find(hook.id)
    if found is None or found.state != "active":
        raise Stopped
