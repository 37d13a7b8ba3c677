"""The status of webhooks: how the last attempts went, why one is failing and when it is tried next, and how far a replay is.

It is one record per webhook, beside it. So every server shows the same, a restart forgets nothing, and a webhook whose receiver is
down needs no server that remembers when to try again: whichever finds the time come tries. A failure is written at once. Attempts
that succeed are collected, and written at most every `Webhooks.log_every` seconds: each write has the whole log, some 6 KB, and is
an entry of the journal, which is kept for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...core.commands import PutRecord
from ...core.model import Slot
from ...core.reading import FindRecord, ListRecords
from ...errors import VersionConflict
from ...kernel._async.executor import AsyncExecutor
from .exchange import Failure

STATUS: Final = "~webhook.status"

Outcome: TypeAlias = Literal["delivered", "gone", "rejected"] | Failure
"""`rejected`: the receiver answered, but not with 2xx or 410."""
Kind: TypeAlias = Literal["first", "retry", "replay", "test"]


class Attempt(Struct, frozen=True, kw_only=True, array_like=True):
    """One attempt at a delivery. Stored without the names of its fields: a log has many."""

    at: Slot
    event: str
    kind: Kind
    outcome: Outcome
    status: int | None = None
    seconds: float
    why: str | None = None
    """Why it failed."""


class Failing(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A webhook whose last attempt failed."""

    since: Slot
    why: str
    event: str
    attempts: int
    """At this event."""
    next_at: Slot | None = None
    """When the event is tried again; None: it is parked, and the next event is tried when there is one."""


class Replay(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One replay of the parked events of a webhook."""

    began: Slot
    total: int
    taken: int = 0
    failed: int = 0
    ended: Slot | None = None


class HookStatus(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored status of a webhook."""

    attempts: tuple[Attempt, ...] = ()
    """The last ones, the oldest first."""
    failing: Failing | None = None
    replay: Replay | None = None
    """The current or the last one."""
    parked: int = 0


_status: Final = msgspec.json.Decoder(HookStatus)


def works_again(status: HookStatus) -> HookStatus:
    """Return the status after the receiver has taken a replay or a test: it is no longer failing, unless an event waits to be tried."""
    if status.failing is None or status.failing.next_at is not None:
        return status
    return replace(status, failing=None)


class Statuses:
    """The status of each webhook, with those attempts of this process that are not stored yet."""

    def __init__(self, executor: AsyncExecutor, most: int, every: float) -> None:
        """Keep the last `most` attempts of each webhook; store successful ones every `every` seconds."""
        self._executor, self._most, self._every = executor, most, every
        self._pending: dict[tuple[str, str], list[Attempt]] = {}
        self._flushed: dict[tuple[str, str], float] = {}

    async def find(self, tenant: str, hook: str) -> HookStatus:
        """Return the status of one webhook."""
        row = await self._executor.read(FindRecord((tenant, STATUS, hook)))
        stored = HookStatus() if row is None else _status.decode(row.body)
        return self._merged(stored, self._pending.get((tenant, hook), []))

    async def of_tenant(self, tenant: str) -> dict[str, HookStatus]:
        """Return the status of each webhook of a tenant, by its id."""
        rows = await self._executor.read(ListRecords(tenant, STATUS, "", 1_000))
        pending = self._pending
        return {row.id: self._merged(_status.decode(row.body), pending.get((tenant, row.id), [])) for row in rows}

    def add(self, tenant: str, hook: str, attempt: Attempt) -> None:
        """Remember an attempt, to be stored with the next change or `flush`."""
        pending = self._pending.setdefault((tenant, hook), [])
        pending.append(attempt)
        del pending[: -self._most]

    async def flush(self, tenant: str, hook: str, *, now: bool = False) -> None:
        """Store the attempts that are not stored yet, unless some were a moment ago."""
        key = (tenant, hook)
        due = now or time.monotonic() - self._flushed.get(key, float("-inf")) > self._every
        if due and self._pending.get(key):
            await self.change(tenant, hook, lambda status: status)

    async def flush_all(self, *, now: bool = False) -> None:
        """Run `flush` for all webhooks."""
        for tenant, hook in list(self._pending):
            await self.flush(tenant, hook, now=now)

    async def change(self, tenant: str, hook: str, change: Callable[[HookStatus], HookStatus]) -> HookStatus:
        """Change the status, and store the attempts that are not stored yet. Do not store the status of a removed webhook again."""
        key = (tenant, hook)
        fresh = self._pending.pop(key, [])
        try:
            while (row := await self._executor.read(FindRecord((tenant, STATUS, hook)))) is not None:
                changed = change(self._merged(_status.decode(row.body), fresh))
                body = msgspec.json.encode(changed).decode()
                command = PutRecord(tenant=tenant, kind=STATUS, id=hook, body=body, if_version=row.version)
                try:
                    await self._executor.execute(command, faces=True)
                except VersionConflict:
                    continue
                self._flushed[key] = time.monotonic()
                return changed
        except BaseException:
            self._pending[key] = [*fresh, *self._pending.get(key, [])][-self._most :]
            raise
        self.forget(tenant, hook)
        return HookStatus()

    def forget(self, tenant: str, hook: str) -> None:
        """Drop what this process keeps of a webhook."""
        self._pending.pop((tenant, hook), None)
        self._flushed.pop((tenant, hook), None)

    def _merged(self, status: HookStatus, fresh: list[Attempt]) -> HookStatus:
        if not fresh:
            return status
        attempts = sorted(dict.fromkeys((*status.attempts, *fresh)), key=lambda one: one.at)
        return replace(status, attempts=tuple(attempts[-self._most :]))
