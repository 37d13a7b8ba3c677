"""`hk.admin.records`: small JSON documents that an application keeps beside its holds."""

from __future__ import annotations

from typing import Any, Unpack

from ...core.commands import PutRecord
from ...core.reading import FindRecord, ListRecords
from ...core.validation import text, whole
from ..answers import record_of
from ..arguments import Call, call_fields
from ..results import Page, Record, shown_record
from .executor import AsyncExecutor
from .searching import check_after


class AsyncRecords:
    """The records of one tenant."""

    def __init__(self, executor: AsyncExecutor, tenant: str) -> None:
        self._executor, self._tenant = executor, tenant

    async def put(
        self, kind: str, id: str, body: str | None, *, if_version: int | None = None, **call: Unpack[Call]
    ) -> Record | None:
        """Write a small JSON document, or remove it with body None. Raises `VersionConflict` if the record is not at `if_version`."""
        command = PutRecord(kind=kind, id=id, body=body, if_version=if_version, **call_fields(call, self._tenant))
        return record_of(await self._executor.execute(command, call.get("tx")))

    async def get(self, kind: str, id: str, *, tx: Any = None) -> Record | None:
        """Return one record, or None."""
        key = (self._tenant, text(kind, "kind", 64), text(id, "id", 512))
        stored = await self._executor.read(FindRecord(key), tx)
        return None if stored is None else shown_record(stored)

    async def list(self, kind: str, *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[Record]:
        """Return the records of a kind in order of id."""
        whole(limit, "limit", 1, 1_000)
        check_after("" if after is None else after, "after")
        query = ListRecords(self._tenant, text(kind, "kind", 64), after or "", limit, self._executor.page_bytes)
        rows = await self._executor.read(query, tx)
        return Page(map(shown_record, rows), next=rows[-1].id if rows.more else None)
