"""Reads: pools, holds, records, the journal. They count a due leg as returned, and write nothing.

Those of pools, holds and records take `tx=`: in a caller's transaction they see what that has not committed yet.
"""

from __future__ import annotations

from os import PathLike
from typing import Any, Unpack
from uuid import UUID

from ...core.commands import Command, Ttl
from ...core.ladders.finding import missing
from ...core.model import MAX_SLOT, Pool, Record
from ...core.outcomes import Reason, Refusal
from ...core.pages import Page
from ...core.reading import (
    CountAhead,
    FindHold,
    FindPool,
    FindRecord,
    ListPools,
    ListRecords,
    ListTenants,
    ReadClock,
    ReadGeneration,
)
from ...core.searching import ListLine
from ...core.trees import SEPARATOR, directly_below
from ...core.validation import flag, hold_id, invalid, pool_id, text, whole
from ...core.values import MAX_ENTITY
from ...engines.progress import Progress
from ..answers import refusal_of
from ..archive import ArchiveReport
from ..archive import archive as archive_journal
from ..context import Call, call_fields
from ..journal import JournalEntry, unbound
from ..journal_archive import JournalArchive
from ..normalise import reference, span
from ..results import Hold, JournalPage, RepairReport, StorageUsage, VerifyReport
from ..verification import sealed_through, verify_whole
from .accounts import AsyncAccount
from .journal_reads import archived_history, subject_history
from .searching import AsyncSearches, check_after
from .usage import AsyncUsageCounter

NO_REPAIR = (
    "this engine cannot repair: its state is its folded journal, or its tables are distributed and cannot be locked as a "
    "whole"
)


class AsyncReads(AsyncSearches):
    """Everything that only reads, for one tenant."""

    async def pool(self, id: str, *, tx: Any = None) -> Pool:
        """One pool. Raises `PoolNotFound`."""
        pool_id(id, "id", faces=True)
        found = await self._executor.read(FindPool((self._tenant, id)), tx)
        if found is None:
            raise refusal_of(Refusal(Reason.POOL_NOT_FOUND, id))
        return found

    async def pools(
        self, prefix: str = "", *, archived: bool = False, after: str = "", limit: int = 100, tx: Any = None
    ) -> list[Pool]:
        """Pools in order of id, those that are archived only if asked for; give the last id as `after` for the next page."""
        whole(limit, "limit", 1, 1_000)
        flag(archived, "archived")
        check_after(prefix, "prefix")
        check_after(after, "after")
        return await self._executor.read(ListPools(self._tenant, prefix, after, limit, archived=archived), tx)

    async def get(self, hold: Hold | str | UUID, *, tx: Any = None) -> Hold:
        """A hold as it is now, without its token. Raises `HoldNotFound` or `HoldRetired`."""
        id, _ = reference(hold, None)
        hold_id(id)
        found = await self._executor.read(FindHold((self._tenant, id)), tx)
        if found is None:
            raise refusal_of(missing(id, await self._executor.stored_limits(), self._executor.now()))
        return Hold(found)

    async def place(self, hold: Hold | str | UUID, *, tx: Any = None) -> int | None:
        """How many wait in line ahead of a hold, exact to 1,000; None if it does not wait. It takes as long as it counts. Raises
        `HoldNotFound` or `HoldRetired`."""
        id, _ = reference(hold, None)
        ahead = await self._executor.read(CountAhead((self._tenant, hold_id(id))), tx)
        if ahead is None:
            await self.get(id, tx=tx)  # raises if there is no such hold
        return ahead

    async def line(self, pool: str, *, after: int = 0, limit: int = 100, tx: Any = None) -> Page[Hold]:
        """Who waits in the line of a pool, in order, the next one first; for the next page give the number of the last one as `after`, as
        long as there are `more`. Raises `PoolNotFound`."""
        whole(limit, "limit", 1, 1_000)
        whole(after, "after", 0, MAX_SLOT)
        key = (self._tenant, pool_id(pool, "pool", faces=True))
        rows = await self._executor.read(ListLine(key, after, limit, self._executor.page_bytes), tx)
        if not rows:
            await self.pool(pool, tx=tx)  # raises if there is no such pool
        return Page(map(Hold, rows), more=rows.more, size=rows.size)

    async def children(self, pool: str, *, after: str = "", limit: int = 100, tx: Any = None) -> Page[Pool]:
        """The pools directly below a pool, archived ones too, in order of id; for the next page give `reached` as `after`, as long as there
        are `more`. What is below these is passed over, some thousands at a time, so a page may be short. Raises `PoolNotFound`."""
        whole(limit, "limit", 1, 1_000)
        check_after(after, "after")
        prefix = pool_id(pool, "pool", faces=True) + SEPARATOR
        found: Page[Pool] = Page()
        start = after
        for _ in range(limit + 1):
            rows = await self._executor.read(ListPools(self._tenant, prefix, start, limit, archived=True), tx)
            below, start = directly_below(prefix, rows, start)
            found += below
            if len(rows) < limit and (not rows or start == rows[-1].id):
                if not found and not after:
                    await self.pool(pool, tx=tx)  # raises if there is no such pool
                return found if len(found) <= limit else Page(found[:limit], more=True, reached=found[limit - 1].id)
            if len(found) >= limit:
                return Page(found[:limit], more=True, reached=found[limit - 1].id)
        found.more, found.reached = True, start
        return found

    def account(self, name: str) -> AsyncAccount:
        """What one account uses: ``hk.account("customer:7").usage()``."""
        return AsyncAccount(self._executor, self._tenant, text(name, "account", MAX_ENTITY))

    async def record(self, kind: str, id: str, *, tx: Any = None) -> Record | None:
        """One record, or None."""
        return await self._executor.read(FindRecord((self._tenant, text(kind, "kind", 64), text(id, "id", 512))), tx)

    async def records(self, kind: str, *, after: str = "", limit: int = 100, tx: Any = None) -> Page[Record]:
        """Records of a kind in order of id."""
        whole(limit, "limit", 1, 1_000)
        check_after(after, "after")
        query = ListRecords(self._tenant, text(kind, "kind", 64), after, limit, self._executor.page_bytes)
        return await self._executor.read(query, tx)

    async def tenants(self, *, after: str = "", limit: int = 100) -> list[str]:
        """Names of the tenants that have pools, in order; give the last one as `after` for the next page. The default tenant
        has no name, and is not listed. On a kernel without a tenant only."""
        unbound(self._tenant)
        whole(limit, "limit", 1, 1_000)
        check_after(after, "after")
        return await self._executor.read(ListTenants(after, limit))

    async def usage(self) -> StorageUsage:
        """Count what this tenant has stored: rows and bytes. Reads the whole journal once, in steps."""
        counter = AsyncUsageCounter(self._executor)
        await counter.catch_up()
        return await counter.usage(self._tenant)

    async def verify(
        self, *, progress: Progress | None = None, archive: str | PathLike[str] | None = None
    ) -> VerifyReport:
        """Fold the whole journal and compare it with every stored row; names each difference, changes nothing.

        If entries were archived, it begins with the baseline that stands for them. With `archive`, the directory of the files, it
        folds those too, and compares the baseline with them. Where the journal is sealed, every sealed run is checked against its seal:
        with `archive` those of the files too. (`holdkit verify --seals` also checks signatures and an anchor.)

        `progress(done, total)` is called now and then, from the thread that does it. Memory is bounded, however long the
        journal: what does not fit is on disk meanwhile, in a temporary file.
        """
        engine = self._executor.engine

        def work() -> VerifyReport:
            return VerifyReport(tuple(verify_whole(engine, progress, archive)), sealed_through(engine))

        return await self._executor.run_blocking(work)

    async def archive(self, *, before: Ttl, to: str | PathLike[str], progress: Progress | None = None) -> ArchiveReport:
        """Move journal entries of all tenants that are older than `before` ("90d") to files in the directory `to`, which is created
        if need be. A baseline stands for them from then on. On a kernel without a tenant only.

        Writers go on meanwhile: while others write, the run rests most of the time. It may be interrupted at any point: the next run, to
        the same directory, goes on. Entries that a kept operation record refers to stay, and so does the newest of each lane. Raises
        `EngineError` if another process archives.
        """
        unbound(self._tenant)
        age = span(before, "before")
        executor = self._executor
        now = await executor.read(ReadClock())
        return await executor.run_blocking(
            lambda: archive_journal(executor.engine, now - age, to, progress, lambda: executor.stats.commands)
        )

    async def repair(
        self, *, dry_run: bool = True, progress: Progress | None = None, **call: Unpack[Call]
    ) -> RepairReport:
        """Make every row agree with the journal again, of all tenants; each pool that is repaired gets an entry `pool.repaired`.
        Only with `dry_run=False`; every writer waits meanwhile.

        If the journal itself is damaged nothing is touched. The memory engine has no rows beside its journal.
        Memory use and `progress` are as with `verify`.
        """
        engine = self._executor.engine
        if call.get("tx") is not None or call.get("op") is not None:
            raise invalid(
                "call", "argument_unknown", "a repair takes neither tx nor op: it is a transaction of its own"
            )
        if type(dry_run) is not bool:
            raise invalid("dry_run", "dry_run_not_boolean", "must be True or False")
        repairable = engine.capabilities.repair
        if repairable is None:
            raise invalid("url", "repair_unsupported", NO_REPAIR)
        command = Command(**call_fields(call, self._tenant))
        found = await self._executor.run_blocking(
            lambda: repairable.repair(command, dry_run=dry_run, progress=progress)
        )
        return RepairReport(found.repaired, found.left, dry_run)

    async def history(
        self,
        hold: Hold | str | UUID,
        *,
        after: str | None = None,
        limit: int = 1_000,
        archive: str | PathLike[str] | None = None,
    ) -> JournalPage[JournalEntry]:
        """Return up to `limit` entries about a hold, in journal order, after a cursor (the `cursor` of an entry). (`hk.journal.history`
        is the history of a pool.)

        If the first entries are archived, an entry `journal.baseline` stands for them, and `JournalEntry.archived_to` says where they
        are. With `archive`, that directory, they are read from there: all its files, which takes its time. Raises `CursorLost` if the
        journal was cut back.
        """
        whole(limit, "limit", 1, 10_000)
        id = hold_id(reference(hold, None)[0])
        if archive is not None:
            return await archived_history(self._executor, self._tenant, id, after, limit, JournalArchive(archive))
        return await subject_history(self._executor, self._tenant, id, after, limit)

    async def generation(self) -> str:
        """Return an opaque word for this generation of the journal, which a promotion, a restore or an import changes."""
        return await self._executor.read(ReadGeneration())
