"""A lease on a record: it lets one of many processes on one database act for the record. Sagas and the webhook sender use it.

Theory of operation

*Where it is.* The lease is part of a record's body: its length in slots, and a word that identifies the holder (a saga's
epoch, a webhook sender's random id). It begins at the record's own slot, which the engine sets when it commits the write. So
each write of the holder renews the lease, and only the engine's clock says when it began. Length 0, or no record: the
lease is free.

*Taking it.* A process that finds it free writes the record with `if_version` of the version it has read. If several try at the
same time, the core grants exactly one; the others get `version_conflict`, here `LeaseLost`.

*Fencing.* A lease that runs out does not stop its holder: that may be slow, paused or cut off, and believe that it still has
it. Therefore the lease alone protects nothing. Every write that must happen under it carries the version that the holder has
written last. A take-over changes the version, so the former holder can write nothing more, however late it wakes, and the
clocks are needed for progress only, never for safety. What cannot be fenced this way, such as a request to another system,
may happen twice: sagas hand out an epoch that grows with every holder, webhooks an event id.

*Holders that die* lose the lease when it runs out, by the engine's clock. A holder that ends in order writes length 0 or
removes the record, and the next one takes the lease at once.

*A renewal whose outcome is unknown* may have moved the version. The holder reads the record: if it is still marked as its own,
it adopts the version; else the lease is lost.

*Wrong clocks.* A clock that jumps forward ends leases early: the next holder takes over, and the former one is fenced. A clock
that was set back makes the lease look as if it began in the future. Counted by that clock it could keep others out for hours,
so a waiting process counts by its own steady clock instead, from the moment it first saw that write (`LeaseWatch`).

*Interrupts.* Nothing is kept in this process that a later read does not correct: a caller that is cancelled between read and
write has taken nothing, and one that is cancelled during the write is in the state of an unknown renewal.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from ..core.commands import PutRecord
from ..core.model import SECOND, Record, Slot
from ..core.outcomes import Done, Outcome, Reason, Refusal
from ..core.reading import FindRecord, ReadClock
from ..engines.clocks import steady
from ..errors import InvalidRequest, VersionConflict
from ._async.executor import AsyncExecutor
from .answers import refusal_of

POLL: Final = 1.0
"""Seconds between two reads of another holder's lease."""
MAX_WATCHED: Final = 1_000
"""Leases from the future that one `LeaseWatch` remembers; the oldest go first."""


class LeaseLost(Exception):
    """Another holder has the lease, or has had it since; nothing was written."""


def written(row: Record, outcomes: Sequence[Outcome]) -> Record:
    """Return the record after a write at the version of `row`, given its outcome and those of the commands written with
    it.

    Raises `LeaseLost` if another holder has written the record, and the refusal of any other command.
    """
    first = outcomes[0]
    if isinstance(first, Refusal) and first.reason is Reason.VERSION_CONFLICT:
        raise LeaseLost(row.id)
    for outcome in outcomes:
        if isinstance(outcome, Refusal) and outcome.reason is not Reason.ABORTED:
            raise refusal_of(outcome)
        if not isinstance(outcome, Done | Refusal):
            raise InvalidRequest(outcome.message, field=outcome.field, code=outcome.code)
    assert isinstance(first, Done)
    assert first.record is not None
    return first.record


class LeaseWatch:
    """The time that the leases of others still last, as one process sees them."""

    def __init__(self) -> None:
        self._first_seen: OrderedDict[tuple[str, str, str], tuple[int, float]] = OrderedDict()
        """Of leases that begin in the future: the version of the record, and when it was first read, by `steady`."""

    def remaining(self, row: Record, length: Slot, now: Slot) -> Slot:
        """Return the slots until a lease that was written with `row` runs out, by the engine's clock `now`; 0 or less: it is free."""
        if not length or row.slot <= now:
            return row.slot + length - now if length else 0
        seen = steady()
        version, since = self._first_seen.pop(row.key, (0, 0.0))
        if version != row.version:
            since = seen
        self._first_seen[row.key] = (row.version, since)
        if len(self._first_seen) > MAX_WATCHED:
            self._first_seen.popitem(last=False)
        return length - round((seen - since) * SECOND)


class _Body(Struct, frozen=True):
    """The stored body of a lease that has a record of its own."""

    holder: str
    slots: Slot


_decode: Final = msgspec.json.Decoder(_Body).decode


class RecordLease:
    """A lease with a record of its own, as one process of many holds it, or waits for it. For tasks.

    It is taken when there is something to do, renewed when it is used and less than half of it is left, and given back at the
    end: while nothing happens, nothing is written.
    """

    def __init__(self, executor: AsyncExecutor, key: tuple[str, str, str], seconds: float) -> None:
        self._executor, self._key, self._seconds = executor, key, seconds
        self._ours = _Body(os.urandom(8).hex(), round(seconds * SECOND))
        self._version = 0
        self._held_until = 0.0
        """By `steady`, counted from before our last write: never later than the engine's clock would say."""
        self._watch = LeaseWatch()

    async def acquire(self) -> bool:
        """Have the lease for at least half of its length. True if another holder may have had it since we last did.

        Raises `LeaseLost` if another holder has it.
        """
        began = steady()
        if began + self._seconds / 2 < self._held_until:
            return False
        row = await self._find()
        if await self._held_by_another(row):
            raise LeaseLost(self._key[2])
        seen, before = 0 if row is None else row.version, self._version
        self._held_until = 0.0
        self._version = await self._write(msgspec.json.encode(self._ours).decode(), seen)
        self._held_until = began + self._seconds
        return row is None or _decode(row.body) != self._ours or seen != before

    async def keep(self) -> None:
        """Renew the lease, which we must have had without interruption. Raise `LeaseLost` if not: then our last read may be old."""
        if await self.acquire():
            raise LeaseLost(self._key[2])

    async def wait_until_free(self) -> None:
        """Wait until no other holder has the lease."""
        while True:
            if not await self._held_by_another(await self._find()):
                return
            await asyncio.sleep(min(POLL, self._seconds / 4))

    async def sleep(self, seconds: float) -> None:
        """Sleep, and keep the lease meanwhile."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            await asyncio.sleep(min(left, self._seconds / 4))
            await self.keep()

    async def release(self) -> None:
        """Free the lease, so that another holder can take it at once."""
        if not self._held_until:
            return
        self._held_until = 0.0
        try:
            await self._write(None, self._version)
        except LeaseLost:
            return  # another holder has it already

    async def _find(self) -> Record | None:
        return await self._executor.read(FindRecord(self._key))

    async def _held_by_another(self, row: Record | None) -> bool:
        if row is None:
            return False
        lease = _decode(row.body)
        if lease.holder == self._ours.holder:
            return False
        return self._watch.remaining(row, lease.slots, await self._executor.read(ReadClock())) > 0

    async def _write(self, body: str | None, version: int) -> int:
        tenant, kind, id = self._key
        command = PutRecord(tenant=tenant, kind=kind, id=id, body=body, if_version=version)
        try:
            done = await self._executor.execute(command, faces=True)
        except VersionConflict:
            raise LeaseLost(id) from None
        return 0 if done.record is None else done.record.version
