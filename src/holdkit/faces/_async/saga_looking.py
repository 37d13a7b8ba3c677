"""Looking at sagas: one, all, those that somebody should look at. Writes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeAlias

from ...core.commands import Ttl
from ...core.model import SECOND, Record, Slot
from ...core.reading import FindRecord, ListRecords, ReadClock
from ...core.validation import invalid, whole
from ...errors import SagaBusy
from ...kernel._async.executor import AsyncExecutor
from ...kernel.normalise import span
from ..saga_records import KIND, OPEN, PARKED, SagaBody, SagaRecord, Unreadable, checked_id, decode, shown, unreadable
from ..saga_steps import UNFINISHED, Phase

Listed: TypeAlias = "list[SagaRecord]"
PAGE = 200


class AsyncSagaReads:
    """The sagas of one tenant, as they are."""

    def __init__(self, executor: AsyncExecutor, tenant: str) -> None:
        self._executor, self._tenant = executor, tenant

    async def get(self, id: str) -> SagaRecord | None:
        """One saga, or None. One that ended longer ago than the retention is forgotten."""
        record = await self._find(checked_id(id))
        return None if record is None else shown(record, read_body(record))

    async def list(self, *, phase: Phase | str | None = None, after: str = "", limit: int = 100) -> Listed:
        """Sagas in order of id, all or those in one phase; give the last id as `after` for the next page."""
        whole(limit, "limit", 1, 1_000)
        if phase is not None and phase not in [*Phase]:
            raise invalid("phase", "phase_unknown", f"must be one of {', '.join(Phase)}")
        if after != "":
            checked_id(after)
        kind = OPEN if phase in UNFINISHED else PARKED if phase == Phase.PARKED else KIND
        found: Listed = []
        async for record in self._walk(kind, after):
            seen = shown(record, read_body(record))
            if phase is None or seen.phase == phase:
                found.append(seen)
                if len(found) == limit:
                    break
        return found

    async def stuck(self, older_than: Ttl = "5m", *, limit: int = 100) -> Listed:
        """What somebody should look at: parked sagas, and unfinished ones that have been in their phase for too long."""
        whole(limit, "limit", 1, 1_000)
        oldest = span(older_than, "older_than")
        now = await self._now()
        found: Listed = []
        for kind in (PARKED, OPEN):
            async for record in self._walk(kind, ""):
                seen = shown(record, read_body(record))
                if kind == PARKED or seen.since_slot + oldest <= now:
                    found.append(seen)
                if len(found) == limit:
                    return found
        return found

    async def _now(self) -> Slot:
        return await self._executor.read(ReadClock())

    async def _find(self, id: str, tx: Any = None, *, durable: bool = False) -> Record | None:
        return await self._executor.read(FindRecord((self._tenant, KIND, id)), tx, durable=durable)

    async def _walk(self, kind: str, after: str) -> AsyncIterator[Record]:
        """The sagas that a kind of index names, in order of id. (One that moves on meanwhile may be missed or seen late.)"""
        while True:
            page = await self._executor.read(ListRecords(self._tenant, kind, after, PAGE))
            for row in page:
                record = row if kind == KIND else await self._find(row.id)
                if record is not None:
                    yield record
            if len(page) < PAGE:
                return
            after = page[-1].id

    async def _check_free(self, record: Record, body: SagaBody) -> None:
        """Raise `SagaBusy` while somebody has the lease."""
        left = shown(record, body).leased_until_slot
        if left:
            left -= max(await self._now(), record.slot)
        if left > 0:
            raise SagaBusy(f"saga {record.id!r} is being driven by someone else", retry_after=left / SECOND)


def read_body(record: Record) -> SagaBody:
    """The body of a record; of one that cannot be read, what can be said."""
    try:
        return decode(record)
    except Unreadable as why:
        return unreadable(record, why)
