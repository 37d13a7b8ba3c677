"""Who delivers a hook: of all servers on one database, the one that has its lease.

Taken when there is something to deliver, renewed while that lasts, given back when the server stops; a server that is gone
loses it by time, told by the engine's clock. Where nothing happens, nothing is written.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Final

import msgspec
from msgspec import Struct

from ...core.commands import PutRecord
from ...core.model import SECOND, Record, Slot
from ...core.reading import FindRecord, ReadClock
from ...engines.clocks import steady
from ...errors import VersionConflict
from ...kernel._async.executor import AsyncExecutor
from .hooks import LEASES

LOOK: Final = 1.0
"""Seconds between two looks at somebody else's lease."""


class Elsewhere(Exception):
    """Another server delivers this hook."""


class _Lease(Struct, frozen=True):
    holder: str
    slots: Slot


_lease: Final = msgspec.json.Decoder(_Lease)


class Lease:
    """One hook's lease, as one server sees it."""

    def __init__(self, executor: AsyncExecutor, tenant: str, hook: str, seconds: float) -> None:
        self._executor, self._key, self._seconds = executor, (tenant, LEASES, hook), seconds
        self._ours = _Lease(os.urandom(8).hex(), round(seconds * SECOND))
        self._version = 0
        self._until = 0.0
        self._watched = (-1, 0.0)
        """The slot of a lease from the future, and since when we see it."""

    async def hold(self) -> bool:
        """Have it for half its time at least, or raise `Elsewhere`. True: somebody may have had it since we last did."""
        began = steady()
        if began + self._seconds / 2 < self._until:
            return False
        row = await self._find()
        if await self._taken(row):
            raise Elsewhere
        seen, before = 0 if row is None else row.version, self._version
        self._until = 0.0
        try:
            self._version = await self._put(msgspec.json.encode(self._ours).decode(), seen)
        except VersionConflict:
            raise Elsewhere from None
        self._until = began + self._seconds
        return row is None or _lease.decode(row.body) != self._ours or seen != before

    async def keep(self) -> None:
        """Have it still, without a break; or raise `Elsewhere`: then what we know may be old."""
        if await self.hold():
            raise Elsewhere

    async def free(self) -> None:
        """Wait until nobody else has it."""
        while True:
            if not await self._taken(await self._find()):
                return
            await asyncio.sleep(min(LOOK, self._seconds / 4))

    async def pause(self, seconds: float) -> None:
        """Sleep, and have it all the while."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            await asyncio.sleep(min(left, self._seconds / 4))
            await self.keep()

    async def give_back(self) -> None:
        """Let another server go on at once."""
        if not self._until:
            return
        self._until = 0.0
        try:
            await self._put(None, self._version)
        except VersionConflict:
            return  # it was taken from us

    async def _find(self) -> Record | None:
        return await self._executor.read(FindRecord(self._key))

    async def _taken(self, row: Record | None) -> bool:
        if row is None:
            return False
        lease = _lease.decode(row.body)
        if lease.holder == self._ours.holder:
            return False
        now = await self._executor.read(ReadClock())
        return row.slot + lease.slots > now if row.slot <= now else not self._outlasted(row, lease)

    def _outlasted(self, row: Record, lease: _Lease) -> bool:
        """The clock went back, and may take hours to be there again: then its time is counted by ours, from when we saw it."""
        seen = steady()
        if self._watched[0] != row.slot:
            self._watched = (row.slot, seen)
        return seen - self._watched[1] >= lease.slots / SECOND

    async def _put(self, body: str | None, version: int) -> int:
        tenant, kind, hook = self._key
        done = await self._executor.execute(
            PutRecord(tenant=tenant, kind=kind, id=hook, body=body, if_version=version), faces=True
        )
        return 0 if done.record is None else done.record.version
