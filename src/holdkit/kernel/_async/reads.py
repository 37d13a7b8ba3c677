"""Reads: pools, holds, records, the journal. They count a due leg as returned, and write nothing.

Those of pools, holds and records take `tx=`: in a caller's transaction they see what that has not committed yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import islice
from os import PathLike
from typing import Any, Unpack
from uuid import UUID

from ...core.archived import FindArchived
from ...core.codec import is_ticket
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
    ReadHistory,
    entry_of,
    touches,
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
from ..follower_state import OnGeneration, Remember, check_following, check_remembering
from ..journal import JournalEntry, Tenants, decode_cursor, encode_cursor, journal_entries, unbound, whose
from ..journal_archive import JournalArchive
from ..normalise import hold_id as normal_id
from ..normalise import reference, span
from ..results import Hold, RepairReport, StorageUsage, VerifyReport
from ..verification import sealed_through, verify_whole
from .accounts import AsyncAccount
from .following import AsyncFollower, end_of_journal
from .searching import AsyncSearches, check_after, read_page
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

    # The journal

    async def history(
        self,
        subject: Hold | str | UUID,
        *,
        after: str | None = None,
        limit: int = 1_000,
        archive: str | PathLike[str] | None = None,
    ) -> Page[JournalEntry]:
        """What happened to a hold, or to a pool by its id: in journal order, behind a cursor (the `cursor` of an entry), up to
        `limit` entries; none only at the end.

        The history of a pool has the entries which changed the pool or moved its units, so those of its holds too, without their
        extensions. The journal is searched for them, so the time depends on everything that happened meanwhile. Raises
        `CursorLost` if the journal was cut back.

        If the first entries are archived, an entry `journal.baseline` stands for them, and `JournalEntry.archived_to` says where they
        are. With `archive`, that directory, they are read from there: all its files, so it takes its time.
        """
        whole(limit, "limit", 1, 10_000)
        if archive is not None:
            return await self._whole_history(subject, after, limit, JournalArchive(archive))
        name = subject if isinstance(subject, str) and not is_ticket(subject) else reference(subject, None)[0]
        first = await self._executor.read(ReadHistory(self._tenant, text(name, "subject", 600), 1))
        if not first and normal_id(name) != name:  # a hold's id, written as UUIDs often are
            name = normal_id(name)
        elif first and touches(entry_of(first[0]), name):  # a pool's own first entry
            follower = AsyncFollower(self._executor, self._tenant, pool=(self._tenant, name))
            return await read_page(follower, after, limit)
        positions = {} if after is None else decode_cursor(after)
        seen = {lane: seq for lane, (seq, _) in positions.items()}
        query = ReadHistory(self._tenant, name, limit, seen, self._executor.page_bytes)
        rows = await self._executor.read(query)
        entries, _ = journal_entries(rows, positions, self._executor.now())
        return Page(entries, more=rows.more, size=rows.size)

    async def _whole_history(
        self, subject: Hold | str | UUID, after: str | None, limit: int, archive: JournalArchive
    ) -> Page[JournalEntry]:
        """Entries from the files, then those of the journal."""
        given = subject if isinstance(subject, str) and not is_ticket(subject) else reference(subject, None)[0]
        name = text(normal_id(given), "subject", 600)
        positions = {} if after is None else decode_cursor(after)
        through = {one.lane: one.through for one in await self._executor.read(FindArchived())}
        found = await self._executor.run_blocking(
            lambda: list(islice(archive.about(self._tenant, name, positions, through), limit))
        )
        entries, positions = journal_entries(found, positions, self._executor.now())  # type: ignore[assignment]
        if len(entries) == limit:
            return Page(entries, more=True)
        behind = {lane: (max(seq, positions.get(lane, (0, ""))[0]), "") for lane, seq in through.items()}
        rest = await self.history(name, after=encode_cursor({**positions, **behind}), limit=limit - len(entries))
        return Page([*entries, *rest], more=rest.more)

    async def cursor(self, *, back: int = 0) -> str:
        """A cursor behind everything that is in the journal now, or with `back` so many entries earlier in each lane."""
        return await end_of_journal(self._executor, whole(back, "back", 0, MAX_SLOT))

    async def generation(self) -> str:
        """An opaque word for this generation of the journal, which a promotion, a restore or an import changes."""
        return await self._executor.read(ReadGeneration())

    async def follow(
        self,
        name: str | None = None,
        *,
        after: str | None = None,
        wait: bool = True,
        poll: float = 0.5,
        tenant: Tenants = None,
        remember: Remember | None = None,
        on_generation: OnGeneration | None = None,
    ) -> AsyncIterator[JournalEntry]:
        """Entries as they happen, none skipped, behind the cursor `after` or from the beginning.

        With a `name` the cursor is saved durably, and `after` applies only the first time. An entry counts as seen once the
        loop has asked for the next one behind its page, so after a crash the last page comes again (at least once).
        Commits of this kernel wake the follower at once, those of other processes within `poll` seconds. It ends on `close`, or
        with `wait=False` at the end of the journal. Raises `CursorLost` if the journal was cut back, or what follows the cursor
        in any lane was archived. `tenant=ALL` follows all tenants, on a kernel without one; such followers have names of their own.

        Where commits wait for standbys, an entry comes when these have it. Until then the follower tries again by itself; with
        `wait=False` it raises `Overloaded`.

        A saved cursor is cut back together with the journal. `remember` (a file, or a `CursorStore`) keeps outside of the
        database what is about to be shown: if entries that were shown are missing when the follower begins again, `CursorLost`
        is raised. Without it, `on_generation(before, now)` is called, and a warning logged, if the cursor was saved in another
        generation.
        """
        check_following(name, after, wait, poll)
        store = check_remembering(name, remember, on_generation)
        follower = AsyncFollower(
            self._executor,
            whose(tenant, self._tenant),
            name,
            store=store,
            on_generation=on_generation,
            durable=True,
        )
        await follower.begin(after)
        async for entry in follower.follow(None, wait, poll):
            yield entry
