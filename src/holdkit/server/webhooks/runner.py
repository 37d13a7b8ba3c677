"""The delivery of one webhook by this process.

Theory of operation

*When it runs.* A runner has a task only while there may be something to deliver: it is woken when its tenant has a new entry, when
the webhook changes, and once when the server starts. The task ends when it has found the end of the journal and nothing has woken
it since. So a webhook of an idle tenant costs this object, and no reads.

*Who delivers.* Every server that has the webhook wakes; the one that has its lease delivers. The others wait for the lease, and
then read from where the cursor is.

*Turns.* Events are attempted one after the other, some in each turn: the runner takes a slot, reads a page, delivers it, and gives
the slot back after the page or after `TURN` seconds. A runner that waits for a slot has nothing of the journal in memory. Before each
attempt the runner renews its lease if needed: after a wait it must not send what another server has taken over.

*Failures.* A failed attempt is stored with the time of the next one, the cursor is stored before the event, and the page is
dropped: while a receiver is down, nothing of the journal is kept in memory, and any server continues where the schedule is. After
the last attempt the event is parked, and the next follows.

*Interrupts.* A task that is cancelled stores the cursor behind what was accepted, so that it is not sent again. An event that was
being sent is sent again.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import Context
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from ...core.model import SECOND
from ...errors import CursorLost, HoldkitError
from ...kernel._async.following import AsyncFollower
from ...kernel.follower_state import CursorFile
from ...kernel.record_lease import LeaseLost, RecordLease
from ...kernel.results import JournalEntry
from ...kernel.tracing import linked
from ..settings import Webhooks
from .attempts import Attempts
from .events import envelope, event_id
from .hooks import LEASES, Hook, Hooks, follower_name
from .sealing import SecretUnreadable
from .slots import FairSlots, Slot
from .status import Attempt, Failing, HookStatus, Kind, Statuses

log = logging.getLogger("holdkit.server")

PAGE: Final = 20
"""Entries that are read at a time. The cursor is stored behind them: at most this many are repeated if a server dies."""
TURN: Final = 1.0
"""Seconds after which a turn ends, though entries of its page are left."""
LINGER: Final = 5.0
"""Seconds for which a task waits at the end of the journal before it ends."""
TRUNCATED: Final = "the journal was truncated by a failover or a restore"
ARCHIVED: Final = "the journal was archived beyond what it has read: see there for what it did not deliver, and create the webhook anew"
LOST: Final = 30.0
"""Seconds until a webhook whose cursor is lost is tried again."""


class Stopped(Exception):
    """This process has learned that the webhook must not be delivered any more."""


class RetryLater(Exception):
    """The attempt failed; the status says when the next one is due."""


def cursor_file(delivery: Webhooks, id: str) -> CursorFile | None:
    """Return the file that remembers what a webhook was sent, if the settings name a directory."""
    return None if delivery.state is None else CursorFile(Path(delivery.state) / f"webhook-{id}.cursor")


class Runner:
    """Delivers one webhook."""

    def __init__(
        self, hooks: Hooks, id: str, delivery: Webhooks, attempts: Attempts, statuses: Statuses, reading: FairSlots
    ) -> None:
        self._hooks, self._id, self._delivery = hooks, id, delivery
        self._attempts, self._statuses, self._reading = attempts, statuses, reading
        self._executor = hooks.executor
        self._lease = RecordLease(hooks.executor, (hooks.tenant, LEASES, id), 2 * delivery.seconds)
        self._task: asyncio.Task[None] | None = None
        self._news = 0
        self._woken, self._retry = asyncio.Event(), asyncio.Event()
        self._failing: Failing | None = None
        self._full = False
        """Whether as many deliveries are parked as may be."""
        self._waited_for: Failing | None = None
        """The failure whose pause is over. By a clock that was set back it might never be."""

    def wake(self, *, retry: bool = False) -> None:
        """Look for something to deliver; with `retry`, end a pause now."""
        self._news += 1
        self._woken.set()
        if retry:
            self._retry.set()
        if self._task is None:  # in a context of its own: not with the deadline of the request that woke it
            self._task = asyncio.get_running_loop().create_task(self._run(), name="holdkit-webhook", context=Context())

    async def end(self) -> None:
        """Stop delivering here, and let another server continue at once."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not self._executor.closed:
            try:
                await self._lease.release()
            except HoldkitError as failed:  # it runs out by itself
                log.warning(
                    "webhook %s: its lease is not released: %s",
                    self._id,
                    failed,
                    extra={"event": "webhook_lease_unreleased", "webhook": self._id},
                )

    async def _run(self) -> None:
        while not self._executor.closed:
            try:
                await self._lease.wait_until_free()
                if not await self._follow():
                    continue
            except (LeaseLost, RetryLater):
                continue
            except Stopped:
                pass
            except HoldkitError as failed:
                if not await self._continues(failed):
                    break
                continue
            except Exception:
                log.exception(
                    "webhook %s failed", self._id, extra={"event": "webhook_runner_failed", "webhook": self._id}
                )
                await asyncio.sleep(LOST)
                continue
            break
        self._task = None  # with no await since the decision to end: `wake` starts another

    async def _continues(self, failed: HoldkitError) -> bool:
        """Return whether to retry after an error; if so, return only when a retry may help."""
        if self._executor.closed:
            return False
        if isinstance(failed, CursorLost) and failed.missing:
            # delivered entries are gone: an operator must know before more is sent
            log.warning(
                "webhook %s is stopped: %s", self._id, failed, extra={"event": "webhook_stopped", "webhook": self._id}
            )
            gone = (
                f"at least {failed.missing} of the" if not self._hooks.tenant else "some"
            )  # it counts those of all tenants
            await self._stop(f"{TRUNCATED}: {gone} delivered entries are gone")
            return False
        if isinstance(failed, CursorLost) and failed.archived_to is not None:
            await self._stop(ARCHIVED)
            return False
        self._attempts.warnings.tell(self._hooks.tenant, self._id, f"it cannot continue, will retry: {failed}")
        await asyncio.sleep(LOST if isinstance(failed, CursorLost) else 1.0)
        return True

    async def _follow(self) -> bool:
        """Deliver from the stored cursor. Return True if nothing more is to be delivered; False to read everything anew."""
        hook = await self._current()
        self._full = False
        self._failing = (await self._statuses.find(self._hooks.tenant, self._id)).failing
        if await self._paused():
            return False
        follower = AsyncFollower(
            self._executor,
            self._hooks.tenant,
            follower_name(self._id),
            store=cursor_file(self._delivery, self._id),
            durable=True,
        )
        async with self._reading.slot(self._hooks.tenant, ""):
            await follower.begin(hook.after or None)
        while not self._executor.closed:
            news = self._news
            kind: Kind = "first" if self._failing is None else "retry"
            async with self._attempts.slot(kind, self._hooks.tenant, hook) as slot:
                async with self._reading.slot(self._hooks.tenant, ""):
                    entries = await follower.page(PAGE)
                if entries:
                    if await self._lease.acquire():
                        return False  # another server may have delivered these entries
                    if not await self._deliver_all(slot, follower, entries):
                        return False
            if not entries and follower.at_end:
                if follower.overdue():
                    if await self._lease.acquire():
                        return False
                    await follower.save_cursor()
                await self._statuses.flush(self._hooks.tenant, self._id)
                if news == self._news and not await self._woken_within(LINGER):
                    return True
        return False

    async def _woken_within(self, seconds: float) -> bool:
        self._woken.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return False
        return True

    async def _paused(self) -> bool:
        """Wait until the next attempt is due. Return True if that took time: another server may have made the attempt."""
        failing = self._failing
        if failing is None or failing.next_at is None or failing == self._waited_for:
            return False
        longest = max(self._delivery.pauses, default=0.0)
        seconds = min((failing.next_at - self._executor.now()) / SECOND, longest)
        if seconds <= 0:
            return False
        if seconds > self._delivery.seconds:  # so that another server can end the pause
            await self._lease.release()
        self._retry.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._retry.wait()
        except TimeoutError:
            self._waited_for = failing
        return True

    async def _current(self) -> Hook:
        """Return the webhook as it is stored now. Raise `Stopped` if it must not be delivered."""
        hook = await self._hooks.find(self._id)
        if hook is None or hook.state != "active":
            raise Stopped
        try:
            self._hooks.secrets(hook, self._executor.now())
        except SecretUnreadable as unreadable:  # another server may be able to
            self._attempts.warnings.tell(self._hooks.tenant, self._id, f"this server does not deliver it: {unreadable}")
            raise Stopped from None
        return hook

    async def _deliver_all(self, slot: Slot, follower: AsyncFollower, entries: list[JournalEntry]) -> bool:
        """Deliver a page of at least one entry. Return False if the turn was over before."""
        hook, clock = await self._current(), asyncio.get_running_loop().time
        ends = clock() + TURN
        last: JournalEntry | None = None
        delivered = 0
        try:
            for entry in entries:
                if not entry.raw.part and (not hook.actions or entry.action in hook.actions):
                    await self._deliver(slot, hook, entry)
                    delivered += 1
                last = entry
                if self._full or clock() > ends:  # after the first: each turn makes progress
                    break
        except (asyncio.CancelledError, Stopped, RetryLater):
            if delivered:  # so that accepted deliveries are not repeated
                await follower.save_cursor(last)
            raise
        whole = last is entries[-1]
        await follower.save_cursor(None if whole else last)
        if self._full:
            raise Stopped
        await self._statuses.flush(self._hooks.tenant, self._id)
        return whole

    async def _deliver(self, slot: Slot, hook: Hook, entry: JournalEntry) -> None:
        """Attempt one delivery, in the slot of this turn. Raise `RetryLater` if it fails and is not parked yet."""
        failing = self._failing
        event = event_id(hook.id, hook.event_key, entry)
        body = envelope(self._delivery.source, event, entry, self._hooks.positions)
        again = failing is not None and failing.event == event
        await self._lease.keep()
        attempt = await self._attempt("retry" if again else "first", slot, hook, entry, event, body)
        self._statuses.add(self._hooks.tenant, hook.id, attempt)
        if attempt.outcome == "delivered":
            if failing is not None:
                self._failing = None
                await self._change_status(None)
            return
        if attempt.outcome == "gone":
            await self._stop("the receiver answered 410")
            raise Stopped
        made = failing.attempts + 1 if failing is not None and again else 1
        await self._failed(hook, entry, body, attempt, made)

    async def _attempt(
        self, kind: Kind, slot: Slot, hook: Hook, entry: JournalEntry, event: str, body: bytes
    ) -> Attempt:
        """Make an attempt, in a span that is linked to the call that made the entry, if that call was recorded."""
        tracer = self._executor.tracer
        if tracer is None:
            return await self._attempts.send(kind, slot, self._hooks, hook, event, body)
        trace = await self._executor.trace_of(entry)
        with linked(
            tracer, trace, "webhook", {"holdkit.webhook": hook.id, "holdkit.action": entry.action.value}
        ) as span:
            attempt = await self._attempts.send(kind, slot, self._hooks, hook, event, body, tracer.trace())
            if span is not None:
                span.tell("holdkit.outcome", attempt.outcome)
            return attempt

    async def _failed(self, hook: Hook, entry: JournalEntry, body: bytes, attempt: Attempt, made: int) -> None:
        """Plan the next attempt, or park the delivery after the last one."""
        assert attempt.why is not None
        now, pauses = self._executor.now(), self._delivery.pauses
        since = attempt.at if self._failing is None else self._failing.since
        failing = Failing(since=since, why=attempt.why, event=attempt.event, attempts=made)
        if made <= len(pauses):
            self._failing = replace(failing, next_at=now + round(pauses[made - 1] * SECOND))
            await self._change_status(self._failing)
            raise RetryLater
        self._failing = failing
        # An attempt takes seconds: what was erased meanwhile must not be stored anew.
        current = await self._hooks.as_it_is_now(entry)
        if current is not entry:
            body = envelope(self._delivery.source, attempt.event, current, self._hooks.positions)
        await self._hooks.park(hook, entry, body, attempt.why, now)
        self._attempts.parked += 1
        status = await self._change_status(failing, parked=1)
        most = self._delivery.max_parked
        if status.parked >= most:
            self._full = True
            await self._stop(f"{most} deliveries are parked, the maximum: {attempt.why}")

    async def _change_status(self, failing: Failing | None, parked: int = 0) -> HookStatus:
        return await self._statuses.change(
            self._hooks.tenant,
            self._id,
            lambda status: replace(status, failing=failing, parked=status.parked + parked),
        )

    async def _stop(self, why: str) -> None:
        self._attempts.warnings.tell(self._hooks.tenant, self._id, f"it is stopped: {why}")
        await self._hooks.stop(self._id, why, self._executor.now())
        await self._statuses.flush(self._hooks.tenant, self._id, now=True)
