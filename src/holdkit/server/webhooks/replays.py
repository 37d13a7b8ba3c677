"""Replays: the parked deliveries of a webhook, attempted once more, in the background.

A webhook has one replay at a time, on all servers together, under a lease. Its attempts have slots of their own, so it delays no
other delivery; several are under way at a time, so an event that hangs delays those behind it by one attempt at most. An accepted
event is no longer parked: when a server that stopped has interrupted a replay, the next server that starts continues with the events
that remain. A request for a replay while one runs is answered with the progress of the running one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextvars import Context
from typing import Final

from msgspec.structs import replace

from ...errors import HoldkitError
from ...kernel.record_lease import LeaseLost, RecordLease
from ..settings import Webhooks
from .attempts import Attempts
from .events import envelope
from .hooks import LEASES, TOO_LARGE, Hook, Hooks, Parked
from .sealing import SecretUnreadable
from .status import HookStatus, Replay, Statuses, works_again

log = logging.getLogger("holdkit.server")

STORE_EVERY: Final = 2.0
"""Seconds between two writes of the progress."""
PAGE: Final = 4
"""Parked deliveries in memory at a time; each has at most 256 KiB, except those that the journal keeps."""


class _Running:
    """A replay of this process."""

    def __init__(self, hooks: Hooks, hook: Hook, seconds: float) -> None:
        self.hooks, self.hook = hooks, hook
        self.lease = RecordLease(hooks.executor, (hooks.tenant, LEASES, f"{hook.id}.replay"), 2 * seconds)
        self.keeping = asyncio.Lock()
        self.began: asyncio.Future[Replay] = asyncio.get_running_loop().create_future()
        self.progress = Replay(began=0, total=0)
        self.stored = 0
        """How many taken deliveries the stored status knows of."""
        self.stored_at = time.monotonic()
        self.interrupted: LeaseLost | HoldkitError | SecretUnreadable | None = None
        self.task: asyncio.Task[None] | None = None


class Replays:
    """The replays of this process."""

    def __init__(self, delivery: Webhooks, attempts: Attempts, statuses: Statuses) -> None:
        self._delivery, self._attempts, self._statuses = delivery, attempts, statuses
        self._running: dict[tuple[str, str], _Running] = {}

    async def begin(self, hooks: Hooks, hook: Hook) -> Replay:
        """Begin a replay; if one is running, here or elsewhere, return its progress."""
        running = self._running.get((hooks.tenant, hook.id))
        if running is None:
            running = _Running(hooks, hook, self._delivery.seconds)
            self._running[hooks.tenant, hook.id] = running
            running.task = asyncio.get_running_loop().create_task(
                self._run(running), name="holdkit-replay", context=Context()
            )
        began = await asyncio.shield(running.began)
        return running.progress if running.progress.began else began

    async def end(self, tenant: str | None = None, hook: str | None = None) -> None:
        """End the replay of a webhook, or all; they continue when they are begun again."""
        keys = [key for key in self._running if tenant is None or key == (tenant, hook)]
        tasks = [task for key in keys if (task := self._running[key].task) is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, running: _Running) -> None:
        hooks, id = running.hooks, running.hook.id
        try:
            await running.lease.acquire()
            await self._begin(running)
            await self._replay_all(running)
            await self._store(running, ended=True)
        except LeaseLost:  # another server replays it, or has taken over
            if not running.began.done():
                stored = (await self._statuses.find(hooks.tenant, id)).replay
                running.began.set_result(stored or Replay(began=hooks.executor.now(), total=0))
        except (HoldkitError, SecretUnreadable) as failed:
            log.warning(
                "the replay of webhook %s is interrupted: %s",
                id,
                failed,
                extra={"event": "replay_interrupted", "webhook": id},
            )
            if not running.began.done():
                running.began.set_exception(failed)
        finally:
            del self._running[hooks.tenant, id]
            running.began.cancel()
            if not hooks.executor.closed:
                await running.lease.release()

    async def _begin(self, running: _Running) -> None:
        now = running.hooks.executor.now()

        def begun(status: HookStatus) -> HookStatus:
            failing = status.failing
            if failing is not None and failing.next_at is not None:
                failing = replace(
                    failing, next_at=now
                )  # a replay means that the operator expects the receiver to work again
            return replace(status, failing=failing, replay=Replay(began=now, total=status.parked))

        status = await self._statuses.change(running.hooks.tenant, running.hook.id, begun)
        running.progress = status.replay or Replay(began=now, total=0)
        running.began.set_result(running.progress)

    async def _replay_all(self, running: _Running) -> None:
        after = ""
        while page := await running.hooks.parked(running.hook.id, after, PAGE):
            after = page[-1].id
            found = await running.hooks.find(running.hook.id)
            if found is None:
                return
            running.hook = found  # its secret may have been rotated
            async with asyncio.TaskGroup() as group:
                for parked in page:
                    group.create_task(self._replay(running, parked))
            if running.interrupted is not None:
                raise running.interrupted
            if time.monotonic() - running.stored_at > STORE_EVERY:
                await self._store(running)

    async def _replay(self, running: _Running, parked: Parked) -> None:
        """Attempt one delivery and count it. Keep an error that ends the replay in `running.interrupted`; `_replay_all` raises it."""
        try:
            delivered = running.interrupted is None and await self._delivered(running, parked)
        except (LeaseLost, HoldkitError, SecretUnreadable) as interrupted:
            running.interrupted = interrupted
            return
        progress = running.progress
        running.progress = replace(progress, taken=progress.taken + delivered, failed=progress.failed + (not delivered))

    async def _delivered(self, running: _Running, parked: Parked) -> bool:
        hooks, hook = running.hooks, running.hook
        async with self._attempts.slot("replay", hooks.tenant, hook) as slot:
            body = await self._body(hooks, hook, parked)
            if body is None:
                return False
            async with running.keeping:
                await running.lease.keep()
            attempt = await self._attempts.send("replay", slot, hooks, hook, parked.event, body)
        self._statuses.add(hooks.tenant, hook.id, attempt)
        if attempt.outcome != "delivered":
            return False
        await hooks.unpark(parked.id)
        return True

    async def _body(self, hooks: Hooks, hook: Hook, parked: Parked) -> bytes | None:
        """Return the body of the event; None if it was too large to store and the journal was pruned since."""
        if parked.body != TOO_LARGE:
            return parked.body.encode()
        entry = await hooks.entry(hook, parked)
        return None if entry is None else envelope(self._delivery.source, parked.event, entry, hooks.positions)

    async def _store(self, running: _Running, *, ended: bool = False) -> None:
        progress, fresh = running.progress, running.progress.taken - running.stored
        left: int | None = None
        if ended:
            running.progress = progress = replace(progress, ended=running.hooks.executor.now())
            left = await running.hooks.count_parked(running.hook.id)  # a server that died may have miscounted

        def stored(status: HookStatus) -> HookStatus:
            status = works_again(status) if fresh else status
            return replace(status, replay=progress, parked=max(0, status.parked - fresh) if left is None else left)

        await self._statuses.change(running.hooks.tenant, running.hook.id, stored)
        running.stored, running.stored_at = progress.taken, time.monotonic()
