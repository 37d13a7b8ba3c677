"""`hk.admin` without what needs faces: pools, forced verbs, checks of the stored data, limits, erasure and the archive."""

from __future__ import annotations

from os import PathLike
from typing import Any, Unpack

import msgspec
from msgspec.structs import replace

from ...core.command_kinds import Command
from ...core.commands import ChangeLimits, PutRecord, Ttl
from ...core.erasure import ERASURES, By, Erased
from ...core.reading import ListTenants, ReadClock, ReadGeneration
from ...core.searching import ListEntities
from ...core.validation import flag, invalid, whole
from ...engines.progress import Progress
from ..archive import ArchiveReport
from ..archive import archive as archive_journal
from ..arguments import Actor, Call, call_fields, span
from ..erasing import begun, check_call, check_reason, erase_alone, selector_of
from ..group_commit import Stats
from ..journal import unbound
from ..limits import LimitsInForce, changes_of, limits_of
from ..reports import RepairReport, StorageUsage, VerifyReport
from ..results import Page
from ..verification import sealed_through, verify_whole
from .executor import AsyncExecutor
from .operator_verbs import AsyncOperatorVerbs
from .records import AsyncRecords
from .searching import check_after, check_names
from .usage import AsyncUsageCounter

NO_REPAIR = (
    "this engine cannot repair: its state is its folded journal, or its tables are distributed and cannot be locked as a "
    "whole"
)
NO_ERASURE = "this engine cannot erase"


class AsyncHoldsAdmin(AsyncOperatorVerbs):
    """The verbs of an operator for one tenant, without those that need faces."""

    _executor: AsyncExecutor

    def __init__(self, executor: AsyncExecutor, tenant: str) -> None:
        self._executor, self._tenant = executor, tenant

    def _call_fields(self, call: Call) -> dict[str, Any]:
        return call_fields(call, self._tenant)

    @property
    def records(self) -> AsyncRecords:
        """Small JSON documents that an application keeps beside its holds."""
        return AsyncRecords(self._executor, self._tenant)

    async def verify(
        self, *, progress: Progress | None = None, archive: str | PathLike[str] | None = None
    ) -> VerifyReport:
        """Fold the whole journal and compare it with every stored row; names each difference, changes nothing.

        If entries were archived, it begins with the baseline that stands for them. With `archive`, the directory of the files, it
        folds those too, and compares the baseline with them. Where the journal is sealed, every sealed run is checked against its seal:
        with `archive` those of the files too. (`holdkit admin verify --seals` also checks signatures and an anchor.)

        `progress(done, total)` is called now and then, from the thread that does it. Memory is bounded, whatever the length of the
        journal: what does not fit is on disk meanwhile, in a temporary file.
        """
        engine = self._executor.engine

        def work() -> VerifyReport:
            return VerifyReport(tuple(verify_whole(engine, progress, archive)), sealed_through(engine))

        return await self._executor.run_blocking(work)

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
        command = Command(**self._call_fields(call))
        outcome = await self._executor.run_blocking(
            lambda: repairable.repair(command, dry_run=dry_run, progress=progress)
        )
        return RepairReport(outcome.repaired, outcome.left, dry_run)

    async def archive(self, *, before: Ttl, to: str | PathLike[str], progress: Progress | None = None) -> ArchiveReport:
        """Move journal entries of all tenants that are older than `before` ("90d") to files in the directory `to`, which is created
        if it does not exist. A baseline stands for them from then on. On a kernel without a tenant only.

        Writers continue meanwhile: while others write, the run pauses most of the time. It may be interrupted at any point: the next
        run, to the same directory, continues. Entries that a kept operation record refers to stay, and so does the newest of each lane.
        Raises `EngineError` if another process archives.
        """
        unbound(self._tenant)
        age = span(before, "before")
        executor = self._executor
        now = await executor.read(ReadClock())
        return await executor.run_blocking(
            lambda: archive_journal(executor.engine, now - age, to, progress, lambda: executor.stats.commands)
        )

    async def erase(
        self,
        by: By,
        value: str,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        archive: str | PathLike[str] | None = None,
        **call: Unpack[Call],
    ) -> Erased:
        """Erase what is stored about one person: ``hk.admin.erase("entity", "user:7", reason="request 12")``, or by "account", "claim"
        (`type:value`) or "actor".

        The holds of an entity, account or claim lose every personal field, in rows, journal and recorded answers: `erased:` and hex
        digits take their place. An actor is only replaced where it is named. Counters and limits stay as they are, a claim that is taken
        stays taken, and an account that uses units is still counted when its name is used again. The journal still verifies, and
        followers continue. An entry `journal.erased` records it. If it was interrupted, the same call completes it.
        If entries were archived, `archive` is the directory of their files, which are rewritten too.
        With `dry_run` it only counts. `Erased.accounts` lists accounts that must be erased by their own names.
        """
        selector = selector_of(by, value, self._tenant)
        check_call(call)
        fields = call_fields(call, self._tenant)
        flag(dry_run, "dry_run")
        if not dry_run:
            check_reason(fields["reason"])
        erasing = self._executor.engine.capabilities.erasure
        if erasing is None:
            raise invalid("url", "erasure_unsupported", NO_ERASURE)
        engine = self._executor.engine
        erasure = await self._executor.run_blocking(lambda: begun(engine, erasing, selector, fields))
        erased = await self._executor.run_blocking(
            lambda: erase_alone(engine, erasing, erasure, dry_run, progress, archive)
        )
        if dry_run or not (erased.found or erased.resumed):
            return erased
        body = {"by": selector.by, "holds": erased.holds, "entries": erased.entries, "pools": erased.pools}
        command = PutRecord(kind=ERASURES, id=erased.stub, body=msgspec.json.encode(body).decode(), **fields)
        await self._executor.execute(command, faces=True)
        await self._executor.run_blocking(lambda: erasing.finish_erasure(erasure))
        return erased

    async def limits(self) -> LimitsInForce:
        """Return the limits that are stored with the data, including those that another process has changed."""
        return limits_of(await self._executor.stored_limits())

    async def change_limits(
        self,
        *,
        if_version: int | None = None,
        actor: Actor | str | None = None,
        correlation_id: str | None = None,
        reason: str | None = None,
        op: str | None = None,
        **limits: Ttl | None,
    ) -> LimitsInForce:
        """Change limits that are stored with the data: `change_limits(retention="90d", reason="…")`. They apply to all
        tenants, and in every process from its next batch on. A lowered limit cancels nothing.

        Intervals are given like a ttl. Returns the limits in force. Raises `VersionConflict` if these are not at `if_version`.
        """
        if self._tenant:
            raise invalid("tenant", "tenant_bound", "limits hold for all tenants: use the kernel that connect gave you")
        call = Call(actor=actor, correlation_id=correlation_id, reason=reason, op=op)
        command = ChangeLimits(changes=changes_of(limits), if_version=if_version, **self._call_fields(call))
        receipt = await self._executor.execute(command, faces=True)
        if receipt.replayed:
            return limits_of(await self._executor.stored_limits(durable=True))
        # A read that failed now would deny the change.
        return limits_of(self._executor.engine.stored.adopt(receipt.record))

    async def stats(self) -> Stats:
        """Return what the group commit has done since `connect`: batches, commands, the largest batch; and the generation of the
        journal, which a promotion, a restore or an import changes."""
        return replace(self._executor.stats, generation=await self._executor.read(ReadGeneration()))

    async def usage(self) -> StorageUsage:
        """Count what this tenant has stored: rows and bytes. Reads the whole journal once, in steps."""
        counter = AsyncUsageCounter(self._executor)
        await counter.catch_up()
        return await counter.usage(self._tenant)

    async def tenants(self, *, after: str | None = None, limit: int = 100) -> Page[str]:
        """Return the names of the tenants that have pools, in order. The default tenant has no name, and is not listed. On a kernel
        without a tenant only."""
        unbound(self._tenant)
        whole(limit, "limit", 1, 1_000)
        check_after("" if after is None else after, "after")
        names = await self._executor.read(ListTenants(after or "", limit))
        return Page(names, next=names[-1] if len(names) == limit else None)

    async def entities(self, prefix: str = "", *, after: str | None = None, limit: int = 100) -> Page[str]:
        """Return the names of the entities that holds were placed or confirmed for, in order."""
        check_names(prefix, after, limit)
        names = await self._executor.read(ListEntities(self._tenant, prefix, after or "", limit))
        return Page(names, next=names[-1] if len(names) == limit else None)
