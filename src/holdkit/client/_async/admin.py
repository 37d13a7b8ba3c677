"""`remote.admin`: what an operator does, over HTTP."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TypeVar, Unpack

from ...core.commands import PutRecord, Ttl
from ...core.erasure import By, Erased
from ...core.limits import SPANS
from ...core.model import SECOND
from ...core.validation import flag
from ...core.validation import text as checked_text
from ...engines.progress import Progress
from ...errors import EngineError, HoldkitError, InvalidRequest
from ...faces.finding import Found
from ...kernel._async.operator_verbs import AsyncOperatorVerbs
from ...kernel.answers import record_of
from ...kernel.arguments import Actor, Call
from ...kernel.erasing import check_call, selector_of
from ...kernel.group_commit import Stats
from ...kernel.limits import LimitsInForce, changes_of
from ...kernel.reports import StorageUsage, VerifyReport
from ...kernel.results import Hold, Page, Record, shown_record
from ...wire.journal import CursorAnswer
from ...wire.records import RecordAnswer, RecordNow
from ...wire.search import SearchAnswer
from ...wire.stats import Stats as StatsAnswer
from ...wire.system import EraseJob, Job, VerifyJob
from ...wire.tenants import StorageAnswer, TenantPage, usage_from
from ..answers import ServerClock, claim_from, limits_from, pool_from, record_from, row_from, stats_from
from ..unsupported import NotRemote, UnsupportedOfAdmin
from .catalog import AsyncRemoteCatalog
from .executor import AsyncRemoteExecutor
from .journal import not_from_files
from .transport import AsyncRemoteCalls, AsyncTransport

R = TypeVar("R")


class AsyncRemoteRecords(AsyncRemoteCalls):
    """The records of the API key's tenant."""

    def __init__(self, transport: AsyncTransport, clock: ServerClock, executor: AsyncRemoteExecutor) -> None:
        super().__init__(transport, clock)
        self._executor = executor

    async def put(
        self, kind: str, id: str, body: str | None, *, if_version: int | None = None, **call: Unpack[Call]
    ) -> Record | None:
        """Write a small JSON document, or remove it with body None. Raises `VersionConflict` if the record is not at `if_version`."""
        command = PutRecord(kind=kind, id=id, body=body, if_version=if_version, **self._call_fields(call))
        return record_of(await self._executor.execute(command))

    async def get(self, kind: str, id: str, *, tx: Any = None) -> Record | None:
        """Return one record, or None."""
        named = checked_text(kind, "kind", 64), checked_text(id, "id", 512)
        try:
            found: RecordNow = await self._do("show_record", *named, tx=tx)
        except InvalidRequest as missing:
            if missing.code != "record_not_found":
                raise
            return None
        return None if found.record is None else shown_record(record_from(found.record))

    async def list(self, kind: str, *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[Record]:
        """Return the records of a kind in order of id."""
        named = checked_text(kind, "kind", 64)
        page: Page[RecordAnswer] = await self._pages("list_records", limit=limit, after=after, kind=named, tx=tx)
        return Page([shown_record(record_from(one)) for one in page], next=page.next)


class AsyncRemoteAdmin(AsyncRemoteCalls, AsyncOperatorVerbs, UnsupportedOfAdmin):
    """What an operator does: with an API key of scope admin."""

    def __init__(self, transport: AsyncTransport, clock: ServerClock, executor: AsyncRemoteExecutor) -> None:
        super().__init__(transport, clock)
        self._remote, self._tenant = executor, ""  # the server knows the tenant by the key

    @property
    def _executor(self) -> AsyncRemoteExecutor:
        return self._remote

    @property
    def records(self) -> AsyncRemoteRecords:
        """Small JSON documents that an application keeps beside its holds."""
        return AsyncRemoteRecords(self._transport, self._clock, self._remote)

    @property
    def catalog(self) -> AsyncRemoteCatalog:
        """What faces have stored, by name and a page at a time."""
        return AsyncRemoteCatalog(self._transport, self._clock)

    async def verify(self, *, progress: Progress | None = None, archive: object = None) -> VerifyReport:
        """Fold the whole journal and compare the result with every stored row, and sealed runs with their seals: for admins of the
        default tenant.
        Returns the first thousand differences.

        The server does it as a job, and this waits for the job, however long it takes. `progress(done, total)` is called
        now and then. If the wait is interrupted, or `progress` raises, the job is cancelled.
        """
        not_from_files(archive)
        job: VerifyJob = await self._do("verify")
        found = await self._result("verify", job, progress, "verification")
        return VerifyReport(
            tuple(found.found), {int(lane): last for lane, last in found.sealed.items() if lane.isdecimal()}
        )

    async def erase(
        self,
        by: By,
        value: str,
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
        archive: object = None,
        **call: Unpack[Call],
    ) -> Erased:
        """Erase what is stored about one person, in the data of the default tenant: for admins of it. As `Admin.erase` of a kernel in your own process.

        The server does it as a job, and this waits for the job. If the wait is interrupted, or `progress` raises, the job is
        cancelled: the same call completes it. Where entries were archived, the server must know the directory of their files
        (`holdkit serve --archive DIR`).
        """
        if archive is not None:
            raise NotRemote("archive", "the files are beside the data: start the server with --archive DIR")
        selector_of(by, value, "")
        check_call(call)
        flag(dry_run, "dry_run")
        job: EraseJob = await self._do("erase", by=by, value=value, dry_run=dry_run, call=call)
        return (await self._result("erase", job, progress, "erasure")).erased

    async def _result(self, operation: str, job: Job[R], progress: Progress | None, what: str) -> R:
        """Return the result of a job, once it has ended; cancels it if the wait is interrupted."""
        try:
            job = await self._ended(operation, job, progress)
        except HoldkitError:
            raise
        except BaseException:
            with suppress(HoldkitError):
                await self._ask("cancel_job", job.id)
            raise
        if job.result is None:
            why = f"was {job.state}" if job.problem is None else f"failed: {job.problem.detail}"
            raise EngineError(f"the {what} {why}")
        return job.result

    async def stats(self) -> Stats:
        """Return what the group commit of the server's process has done since its start, and the generation of the journal, which a
        promotion, a restore or an import changes. `GET /v1/stats` has the server's other counters."""
        found: StatsAnswer = await self._do("stats")
        end: CursorAnswer = await self._do("cursor")
        return stats_from(found, end.generation)

    async def limits(self) -> LimitsInForce:
        """Return the limits that are stored with the data: for keys of the default tenant."""
        return limits_from(await self._do("show_limits"))

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
        """Change limits that are stored with the data: for admins of the default tenant. Every process obeys them
        from its next batch on; a lowered limit cancels nothing. Intervals are written like a ttl."""
        changes = {name: value / SECOND if name in SPANS else value for name, value in changes_of(limits).items()}
        call = Call(actor=actor, correlation_id=correlation_id, reason=reason, op=op)
        return limits_from(await self._do("change_limits", limits=changes, if_version=if_version, call=call))

    async def tenants(self, *, after: str | None = None, limit: int = 100) -> Page[str]:
        """Return the names of the tenants that have pools or API keys, in order: for keys of the default tenant, which has no name
        and is not listed."""
        page: TenantPage = await self._do("list_tenants", after=after, limit=limit)
        return Page([tenant.name for tenant in page.items], next=page.next)

    async def usage(self) -> StorageUsage:
        """Return what the key's tenant has stored: rows and bytes."""
        found: StorageAnswer = await self._do("usage")
        return usage_from(found.usage)

    async def entities(self, prefix: str = "", *, after: str | None = None, limit: int = 100) -> Page[str]:
        """Return the names of the entities that holds were placed or confirmed for, in order."""
        return await self._pages("list_entities", limit=limit, after=after, prefix=prefix)

    async def search(self, text: str, *, limit: int = 10) -> Found:
        """Find a text in everything that has a name: pools, holds, entities, accounts, claims and items, up to `limit` of each, as far
        as the API key may see them."""
        found: SearchAnswer = await self._do("search", q=checked_text(text, "text", 512), limit=limit)
        return Found(
            pools=[pool_from(one) for one in found.pools],
            holds=[Hold(row_from(one)) for one in found.holds],
            entities=found.entities,
            accounts=found.accounts,
            claims=[claim_from(one, self._clock) for one in found.claims],
            items=found.items,
            complete=found.complete,
        )
