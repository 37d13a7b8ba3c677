"""Delivery: one task per hook follows the journal under the hook's own name, so that its place survives this process; of
several servers, the one with the hook's lease delivers.

An entry is tried again with growing pauses, then parked, and the next one goes on: a poisonous entry or a dead receiver
stops nobody else, and no hold ever waits for one. Redirects are not followed; answers are not read beyond their status.
"""

from __future__ import annotations

import asyncio
import logging
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
from .hooks import LEASES, MAX_PARKED, UNKEPT, Hook, Hooks, Parked, place_of, tenants_with_hooks
from .requests import Refusal, Resolver, envelope, event_id, pin, signed_headers, system_resolver

log = logging.getLogger("holdkit.server")

PAGE: Final = 500
KEPT: Final = 20
"""Deliveries after which the place is written down: so many may come again when a server dies."""
POLL: Final = 0.5
CUT_BACK: Final = "the journal was cut back by a failover or a restore"
LOST: Final = 30.0
"""Seconds before a hook whose place is gone is looked at again."""


class Stopped(Exception):
    """The hook is active no more."""


class WebhookSender:
    """Delivers the hooks of all tenants that have any."""

    def __init__(
        self,
        delivery: Delivery,
        *,
        resolve: Resolver = system_resolver,
        clock: Clock = wall_clock,
    ) -> None:
        self._delivery, self._resolve, self._clock = delivery, resolve, clock
        self._http = httpx.AsyncClient(timeout=delivery.seconds, follow_redirects=False, trust_env=False)
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.delivered = self.failed = self.parked = 0

    async def attend(self, kernel: AsyncKernel, tenant: str) -> None:
        """See which hooks a tenant has, and deliver each by a task of its own."""
        hooks = Hooks(kernel.executor, tenant)
        active = {hook.id: hook for hook in await hooks.listed() if hook.state == "active"}
        for owner, id in list(self._tasks):
            if owner == tenant and (id not in active or self._tasks[owner, id].done()):
                await _end(self._tasks.pop((owner, id)))
        for id, hook in active.items():
            if (tenant, id) not in self._tasks:
                self._tasks[tenant, id] = asyncio.create_task(self._run(kernel, hooks, hook), name="holdkit-webhook")

    async def attend_all(self, kernel: AsyncKernel) -> None:
        """The same for every tenant that has hooks."""
        for tenant in await tenants_with_hooks(kernel.executor):
            await self.attend(kernel.tenant(tenant) if tenant else kernel, tenant)

    async def _run(self, kernel: AsyncKernel, hooks: Hooks, hook: Hook) -> None:
        lease = RecordLease(kernel.executor, (hooks.tenant, LEASES, hook.id), 2 * self._delivery.seconds)
        try:
            while not kernel.closed:
                await self._go_on(kernel, hooks, hook, lease)
        except Stopped:
            return
        finally:
            if not kernel.closed:
                await lease.release()

    async def _go_on(self, kernel: AsyncKernel, hooks: Hooks, hook: Hook, lease: RecordLease) -> None:
        try:
            await lease.wait_until_free()
            await self._follow(kernel, hooks, hook, lease)
        except LeaseLost:
            return
        except CursorLost as lost:
            if lost.missing:  # what it was sent is gone: somebody must know, before more is sent
                log.warning("webhook %s is stopped: %s", hook.id, lost)
                await hooks.set_state(
                    hook, "stopped", f"{CUT_BACK}: at least {lost.missing} of the entries it was sent"
                )
                raise Stopped from None
            log.warning("webhook %s waits: %s", hook.id, lost)
            await asyncio.sleep(LOST)
        except HoldkitError as failed:
            if not kernel.closed:
                log.warning("webhook %s could not go on, will try again: %s", hook.id, failed)
                await asyncio.sleep(1.0)

    async def _follow(self, kernel: AsyncKernel, hooks: Hooks, hook: Hook, lease: RecordLease) -> None:
        """From the place that is kept: until the kernel closes, or another server may have moved that place."""
        executor = kernel.executor
        follower = AsyncFollower(executor, hooks.tenant, place_of(hook.id), store=self._store(hook.id))
        await follower.begin(hook.after or None)
        committed = executor.committed
        executor.listen()
        while not committed.closed:
            count = committed.count
            entries = await follower.page(PAGE)
            if entries:
                if await lease.acquire():  # what we have read may have been delivered meanwhile
                    await _check_active(hooks, hook)
                    return
                await self._deliver_all(hooks, hook, lease, follower, entries)
            if follower.at_end:
                await committed.wait(count, POLL)

    def _store(self, id: str) -> CursorFile | None:
        state = self._delivery.state
        return None if state is None else CursorFile(Path(state) / f"webhook-{id}.cursor")

    async def forget(self, kernel: AsyncKernel, tenant: str, id: str) -> None:
        """Whether entries are gone that a hook was sent is asked no more."""
        kernel.executor.shown.forget((tenant, place_of(id)))
        store = self._store(id)
        if store is not None:
            await kernel.executor.run_blocking(store.forget)

    async def _deliver_all(
        self, hooks: Hooks, hook: Hook, lease: RecordLease, follower: AsyncFollower, entries: list[JournalEntry]
    ) -> None:
        last: JournalEntry | None = None
        unkept = 0
        try:
            for entry in entries:
                if not entry.part and (not hook.actions or entry.action in hook.actions):
                    await self._deliver(hooks, hook, lease, entry)
                    unkept += 1
                last = entry
                if unkept == KEPT:
                    unkept = 0
                    await follower.keep_place(last)
        except (asyncio.CancelledError, Stopped):
            if unkept:  # what was taken is not sent again
                await follower.keep_place(last)
            raise
        await follower.keep_place()

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
            await hooks.set_state(hook, "stopped", f"{MAX_PARKED} deliveries are parked")
            raise Stopped

    async def attempt(self, hook: Hook, id: str, body: bytes) -> str:
        """Deliver once: empty if it was taken, else why not. What the receiver said is never kept: it may be anything."""
        try:
            async with asyncio.timeout(self._delivery.seconds):
                target = await pin(hook.url, self._delivery.allowed, self._resolve)
                headers = signed_headers(id, self._clock() // SECOND, body, hook.secret) | {"host": target.authority}
                named = {"sni_hostname": target.host}
                async with self._http.stream(
                    "POST", target.url, content=body, headers=headers, extensions=named
                ) as answer:
                    status = answer.status_code
        except Refusal as refused:
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
        """Try everything that is parked once more: how many were taken, how many stay."""
        taken = 0
        parked = await hooks.parked(hook.id)
        for one in parked:
            body = await self._parked_body(hooks, one)
            if body is not None and not await self.attempt(hook, one.id, body):
                await hooks.unpark(one.id)
                taken += 1
        return taken, len(parked) - taken

    async def _parked_body(self, hooks: Hooks, parked: Parked) -> bytes | None:
        """The event; None if it was not kept, and the journal was pruned since."""
        if parked.body != UNKEPT:
            return parked.body.encode()
        entry = await hooks.entry(parked.id)
        return None if entry is None else envelope(self._delivery.source, parked.id, entry)

    async def close(self) -> None:
        """End every task; each goes on where it was when a server starts again."""
        await _end(*self._tasks.values())
        self._tasks.clear()
        await self._http.aclose()


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _check_active(hooks: Hooks, hook: Hook) -> None:
    """Another server may have stopped or removed it."""
    found = await hooks.find(hook.id)
    if found is None or found.state != "active":
        raise Stopped
