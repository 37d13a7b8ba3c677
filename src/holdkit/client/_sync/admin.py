# Generated from ../_async/admin.py by tools/gen_sync.py: do not edit.
"""`remote.admin`: what an operator does, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
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
from ...kernel._sync.operator_verbs import OperatorVerbs
from ...kernel.answers import record_of
from ...kernel.context import Actor, Call, actor_text, context_of
from ...kernel.erasing import check_call, selector_of
from ...kernel.group_commit import Stats
from ...kernel.limits import LimitsInForce, changes_of
from ...kernel.reports import StorageUsage, VerifyReport
from ...kernel.results import Hold, Page, Record, shown_record
from ...wire.system import ChangeLimitsBody, EraseBody, Job
from ...wire.tenants import usage_from
from ..answers import (
    ServerClock,
    claim_from,
    limits_in,
    pool_from,
    read_end,
    read_erase,
    read_names,
    read_record,
    read_records,
    read_search,
    read_stats,
    read_tenants,
    read_usage,
    read_verify,
    record_from,
    row_from,
    stats_from,
)
from ..requests import path_of, record_path
from ..unsupported import NotRemote, UnsupportedOfAdmin
from .catalog import RemoteCatalog
from .executor import RemoteExecutor
from .journal import not_from_files
from .transport import RemoteCalls, Transport, no_transaction, retry_key

R = TypeVar("R")


class RemoteRecords(RemoteCalls):
    """The records of the API key's tenant."""

    def __init__(self, transport: Transport, clock: ServerClock, executor: RemoteExecutor) -> None:
        super().__init__(transport, clock)
        self._executor = executor

    def put(
        self, kind: str, id: str, body: str | None, *, if_version: int | None = None, **call: Unpack[Call]
    ) -> Record | None:
        """Write a small JSON document, or remove it with body None. Raises `VersionConflict` if the record is not at `if_version`."""
        command = PutRecord(kind=kind, id=id, body=body, if_version=if_version, **self._call_fields(call))
        return record_of(self._executor.execute(command))

    def get(self, kind: str, id: str, *, tx: Any = None) -> Record | None:
        """Return one record, or None."""
        no_transaction(tx)
        try:
            answer = self._get(record_path(kind, id))
        except InvalidRequest as missing:
            if missing.code != "record_not_found":
                raise
            return None
        document = read_record(answer.content).record
        return None if document is None else shown_record(record_from(document))

    def list(self, kind: str, *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[Record]:
        """Return the records of a kind in order of id."""
        no_transaction(tx)
        page = self._pages("/v1/records", read_records, limit, after=after, kind=checked_text(kind, "kind", 64))
        return Page([shown_record(record_from(one)) for one in page], next=page.next)


class RemoteAdmin(RemoteCalls, OperatorVerbs, UnsupportedOfAdmin):
    """What an operator does: with an API key of scope admin."""

    def __init__(self, transport: Transport, clock: ServerClock, executor: RemoteExecutor) -> None:
        super().__init__(transport, clock)
        self._remote, self._tenant = executor, ""  # the server knows the tenant by the key

    @property
    def _executor(self) -> RemoteExecutor:
        return self._remote

    @property
    def records(self) -> RemoteRecords:
        """Small JSON documents that an application keeps beside its holds."""
        return RemoteRecords(self._transport, self._clock, self._remote)

    @property
    def catalog(self) -> RemoteCatalog:
        """What faces have stored, by name and a page at a time."""
        return RemoteCatalog(self._transport, self._clock)

    def verify(self, *, progress: Progress | None = None, archive: object = None) -> VerifyReport:
        """Fold the whole journal and compare the result with every stored row, and sealed runs with their seals: for admins of the
        default tenant.
        Returns the first thousand differences.

        The server does it as a job, and this waits for the job, however long it takes. `progress(done, total)` is called
        now and then. If the wait is interrupted, or `progress` raises, the job is cancelled.
        """
        not_from_files(archive)
        job = read_verify((self._transport.ask("POST", "/v1/verify", op=retry_key())).content)
        found = self._result(job, read_verify, progress, "verification")
        return VerifyReport(
            tuple(found.found), {int(lane): last for lane, last in found.sealed.items() if lane.isdecimal()}
        )

    def erase(
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
        said = context_of(call)
        flag(dry_run, "dry_run")
        body = EraseBody(by=by, value=value, dry_run=dry_run, actor=said.actor, correlation_id=said.correlation_id,
                         reason=said.reason)  # fmt: skip
        job = read_erase((self._transport.ask("POST", "/v1/erase", body)).content)
        return (self._result(job, read_erase, progress, "erasure")).erased

    def _result(self, job: Job[R], read: Callable[[bytes], Job[R]], progress: Progress | None, what: str) -> R:
        """The result of a job, once it has ended; cancels it if the wait is interrupted."""
        try:
            job = self._ended(job, read, progress)
        except HoldkitError:
            raise
        except BaseException:
            with suppress(HoldkitError):
                self._transport.ask("DELETE", path_of("jobs", job.id))
            raise
        if job.result is None:
            why = f"was {job.state}" if job.problem is None else f"failed: {job.problem.detail}"
            raise EngineError(f"the {what} {why}")
        return job.result

    def stats(self) -> Stats:
        """Return what the group commit of the server's process has done since its start, and the generation of the journal, which a
        promotion, a restore or an import changes. `GET /v1/stats` has the server's other counters."""
        answer = self._transport.ask("GET", "/v1/stats")
        return stats_from(read_stats(answer.content), read_end((self._get("/v1/cursor")).content).generation)

    def limits(self) -> LimitsInForce:
        """Return the limits that are stored with the data: for keys of the default tenant."""
        return limits_in(self._transport.ask("GET", "/v1/limits"))

    def change_limits(
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
        body = ChangeLimitsBody(
            limits=changes,
            if_version=if_version,
            actor=None if actor is None else actor_text(actor),
            correlation_id=correlation_id,
            reason=reason,
        )
        return limits_in(self._transport.ask("POST", "/v1/limits", body, op=retry_key(op)))

    def tenants(self, *, after: str | None = None, limit: int = 100) -> Page[str]:
        """Return the names of the tenants that have pools or API keys, in order: for keys of the default tenant, which has no name
        and is not listed."""
        page = read_tenants((self._get("/v1/tenants", after=after, limit=limit)).content)
        return Page([tenant.name for tenant in page.items], next=page.next)

    def usage(self) -> StorageUsage:
        """Return what the key's tenant has stored: rows and bytes."""
        return usage_from(read_usage((self._get("/v1/usage")).content).usage)

    def entities(self, prefix: str = "", *, after: str | None = None, limit: int = 100) -> Page[str]:
        """Return the names of the entities that holds were placed or confirmed for, in order."""
        return self._pages("/v1/entities", read_names, limit, after=after, prefix=prefix)

    def search(self, text: str, *, limit: int = 10) -> Found:
        """Find a text in everything that has a name: pools, holds, entities, accounts, claims and items, up to `limit` of each, as far
        as the API key may see them."""
        query = checked_text(text, "text", 512)
        found = read_search((self._get("/v1/search", q=query, limit=limit)).content)
        return Found(
            pools=[pool_from(one) for one in found.pools],
            holds=[Hold(row_from(one)) for one in found.holds],
            entities=found.entities,
            accounts=found.accounts,
            claims=[claim_from(one, self._clock) for one in found.claims],
            items=found.items,
            complete=found.complete,
        )
