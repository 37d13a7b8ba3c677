"""The delivery of webhooks: a slow, hostile or dead receiver costs its own tenant only, and no hold ever waits for one.

../journal_watch.py  one reader of the journal tells which tenants have news
runner.py     per webhook: reads its tenant's entries from its cursor, delivers them in order, under a lease
replays.py    parked deliveries, once more
attempts.py   one attempt: slot, lookup, check of the address, request, outcome
  slots.py      the bound on attempts, shared fairly by tenants
  lookups.py    names, on threads of our own
  addresses.py  where a request may go
  exchange.py   the request itself, on a connection of its own
status.py     what users see of it: the last attempts, why one is failing, how far a replay is
hooks.py      what is stored of a webhook; sealing.py: its secret; events.py: what it is sent
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextvars import Context
from typing import Any, Final

import msgspec
from msgspec import Struct

from ...core.entries import Action
from ...core.reading import JournalRow
from ...errors import HoldkitError
from ...kernel._async.executor import AsyncExecutor
from ..journal_watch import JournalWatch
from ..positions import PlainPositions
from ..settings import Webhooks
from .addresses import TargetRefused
from .attempts import Attempts
from .events import test_event
from .exchange import ExchangeFailed
from .hooks import Hook, Hooks, follower_name, tenants_with_hooks
from .replays import Replays
from .runner import Runner, cursor_file
from .sealing import Sealer
from .slots import FairSlots
from .status import Attempt, Statuses, works_again

log = logging.getLogger("holdkit.server")

READERS: Final = (4, 1)
"""Webhooks that read a page of the journal at a time, in all and per tenant: the readers of the engine are for everybody."""
FULL_SYNC: Final = 300.0
"""Seconds after which all webhooks are read again, whether or not their tenant's number of changes has grown."""
LAST_FLUSH: Final = 2.0
"""Seconds for writing the logs when the server stops."""


class _Record(Struct):
    kind: str


class _Entry(Struct):
    """The fields of an entry that are decoded."""

    action: str
    tenant: str = ""
    record: _Record | None = None


_entry: Final = msgspec.json.Decoder(_Entry)


def _is_own(entry: _Entry) -> bool:
    """Return whether the entry is the server's own bookkeeping, such as the cursor of a webhook."""
    return entry.action == Action.RECORD_PUT and entry.record is not None and entry.record.kind.startswith("~")


class WebhookSender:
    """Delivers the webhooks of all tenants."""

    def __init__(
        self,
        executor: AsyncExecutor,
        delivery: Webhooks,
        *,
        server_secret: bytes | None = None,
        disabled: AbstractSet[str] = frozenset(),
        positions: Callable[[str], PlainPositions] = lambda _tenant: PlainPositions(),
    ) -> None:
        """Keep the settings. `disabled` names the tenants whose webhooks pause; it may change. `positions` says how a tenant sees positions."""
        self._executor, self._delivery, self._disabled, self._positions = executor, delivery, disabled, positions
        self._sealer = Sealer(server_secret)
        self.attempts = Attempts(delivery, executor.now)
        self.statuses = Statuses(executor, delivery.max_log, delivery.log_every)
        self.replays = Replays(delivery, self.attempts, self.statuses)
        self._reading = FairSlots(READERS[0], READERS[1], READERS[1])
        self._runners: dict[str, dict[str, Runner]] = {}
        self._synced: dict[str, tuple[int, bool]] = {}
        """By tenant: the number of changes at the last `sync`, and whether it was disabled."""
        self._synced_at = float("-inf")
        self._watching: asyncio.Task[None] | None = None
        self._testing: set[tuple[str, str]] = set()

    def hooks(self, tenant: str, executor: AsyncExecutor | None = None) -> Hooks:
        """Return the store of a tenant's webhooks; `executor` is that of the client that asks for a change."""
        return Hooks(executor or self._executor, tenant, self._sealer, self._positions(tenant))

    async def sync(self, tenant: str) -> None:
        """Start delivering the active webhooks of a tenant, each from its stored cursor, and stop the others."""
        hooks = self.hooks(tenant)
        listed = [] if tenant in self._disabled else await hooks.listed()
        active = {hook.id for hook in listed if hook.state == "active"}
        runners = self._runners.setdefault(tenant, {})
        ended = [runners.pop(id) for id in list(runners) if id not in active]
        for id in sorted(active - runners.keys()):
            runners[id] = Runner(hooks, id, self._delivery, self.attempts, self.statuses, self._reading)
        if active:
            await self._watch()
        else:
            self._runners.pop(tenant, None)
        for runner in list(runners.values()):
            runner.wake()
        for runner in ended:
            await runner.end()

    async def sync_all(self) -> None:
        """Run `sync` for each tenant whose webhooks have changed, and every `FULL_SYNC` seconds for all. Continue their replays."""
        now = time.monotonic()
        everything = now - self._synced_at > FULL_SYNC
        changes = await tenants_with_hooks(self._executor)
        found = {tenant: (count, tenant in self._disabled) for tenant, count in changes.items()}
        for tenant in found.keys() | self._runners.keys():
            if everything or self._synced.get(tenant) != found.get(tenant):
                await self.sync(tenant)
                if tenant not in self._disabled:
                    await self._resume_replays(tenant)
        self._synced = found
        await self.statuses.flush_all()
        if everything:
            self._synced_at = now

    async def _resume_replays(self, tenant: str) -> None:
        """Continue the replays that a server has left unfinished."""
        for id, status in (await self.statuses.of_tenant(tenant)).items():
            if status.replay is not None and status.replay.ended is None:
                hook = await self.hooks(tenant).find(id)
                if hook is not None:
                    await self.replays.begin(self.hooks(tenant), hook)

    async def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            watch = JournalWatch(self._executor, self._take, "webhooks")
            self._watching = asyncio.get_running_loop().create_task(
                watch.run(), name="holdkit-webhooks", context=Context()
            )

    def _take(self, rows: Sequence[JournalRow] | None) -> None:
        """Wake the webhooks whose tenants have new entries, so that those of an idle tenant read nothing."""
        entries = [] if rows is None else [_entry.decode(row.text) for row in rows]
        tenants = {entry.tenant for entry in entries if not _is_own(entry)}
        for tenant in list(self._runners) if rows is None else tenants & self._runners.keys():
            for runner in self._runners[tenant].values():
                runner.wake()

    def retry(self, tenant: str, id: str) -> None:
        """End the pause of a webhook."""
        runner = self._runners.get(tenant, {}).get(id)
        if runner is not None:
            runner.wake(retry=True)

    async def check_target(self, tenant: str, url: str) -> None:
        """Raise `TargetRefused` for a URL that must not be called, or whose host does not resolve now."""
        targets = self.attempts.targets
        if targets.names(url):  # it may resolve later
            return
        try:
            addresses = await self.attempts.addresses(tenant, url)
        except ExchangeFailed as failed:
            raise TargetRefused(str(failed)) from None
        targets.choose(url, addresses)

    async def test(self, tenant: str, hook: Hook) -> Attempt | None:
        """Send a test event now; None if another one is under way."""
        key = (tenant, hook.id)
        if key in self._testing:
            return None
        self._testing.add(key)
        try:
            event, body = test_event(self._delivery.source, hook.id, self._executor.now())
            async with self.attempts.slot("test", tenant, hook) as slot:
                attempt = await self.attempts.send("test", slot, self.hooks(tenant), hook, event, body)
        finally:
            self._testing.discard(key)
        self.statuses.add(tenant, hook.id, attempt)
        delivered = attempt.outcome == "delivered"
        await self.statuses.change(tenant, hook.id, lambda status: works_again(status) if delivered else status)
        return attempt

    async def forget(self, tenant: str, id: str) -> None:
        """Stop checking whether the entries that a webhook was sent still exist."""
        self._executor.shown.forget((tenant, follower_name(id)))
        store = cursor_file(self._delivery, id)
        if store is not None:
            await self._executor.run_blocking(store.forget)

    def numbers(self) -> dict[str, Any]:
        """Return the counters of this process."""
        outcomes = self.attempts.outcomes
        delivered = outcomes["delivered"]
        return {
            "delivered": delivered,
            "failed": outcomes.total() - delivered,
            "parked": self.attempts.parked,
            "outcomes": dict(sorted(outcomes.items())),
            "attempts": self.attempts.busy,
            "waiting": self.attempts.waiting,
            "lookups": self.attempts.lookups.slots.busy,
        }

    async def close(self) -> None:
        """Stop; each webhook continues from its cursor when a server starts again."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self.replays.end()
        runners = [runner for ours in self._runners.values() for runner in ours.values()]
        self._runners.clear()
        await asyncio.gather(*(runner.end() for runner in runners))
        if not self._executor.closed:
            try:
                async with asyncio.timeout(LAST_FLUSH):
                    await self.statuses.flush_all(now=True)
            except (HoldkitError, TimeoutError):  # the last successful attempts are missing in the log, nothing else
                log.warning(
                    "the last attempts of webhooks are not in their logs", extra={"event": "webhook_log_unwritten"}
                )
