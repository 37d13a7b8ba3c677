"""Reads over HTTP: pools, holds, the journal, the server itself. Only `sweep`, `change_limits` and `erase` change anything."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, Unpack
from uuid import UUID

import msgspec

from ...core.commands import Ttl
from ...core.erasure import By, Erased
from ...core.limits import SPANS
from ...core.model import SECOND, Pool, Record
from ...core.reading import AccountUsage
from ...core.validation import flag, text
from ...core.validation import hold_id as check_hold_id
from ...core.values import MAX_ENTITY
from ...engines.progress import Progress
from ...errors import EngineError, HoldkitError, InvalidRequest
from ...kernel.context import Actor, Call, actor_text, context_of
from ...kernel.erasing import check_call, selector_of
from ...kernel.limits import LimitsInForce, changes_of
from ...kernel.normalise import reference
from ...kernel.results import Hold, JournalPage, StorageUsage, SweepReport, VerifyReport
from ...wire.journal import EntryAnswer
from ...wire.system import ChangeLimitsBody, EraseBody, Job, SweepBody
from ...wire.tenants import usage_from
from ..answers import (
    ServerClock,
    hold_from,
    limits_in,
    pool_from,
    pool_in,
    read_erase,
    read_hold,
    read_place,
    read_pool_usage,
    read_pools,
    read_record,
    read_records,
    read_sweep,
    read_tenants,
    read_usage,
    read_verify,
    record_from,
    slot_of,
)
from ..requests import path_of, record_path
from ..unsupported import NotRemote
from .executor import AsyncRemoteExecutor
from .following import AsyncRemoteFollower
from .journal import not_from_files
from .searching import AsyncRemoteSearches
from .transport import AsyncRemoteCalls, AsyncTransport, no_transaction, retry_key

R = TypeVar("R")


class AsyncRemoteAccount(AsyncRemoteCalls):
    """What one account uses of the pools."""

    def __init__(self, transport: AsyncTransport, clock: ServerClock, name: str) -> None:
        super().__init__(transport, clock)
        self.name = name

    async def usage(self, *, after: str = "", limit: int = 100, tx: Any = None) -> list[AccountUsage]:
        """What it waits for, holds and has confirmed, by pool, in order of id; give the last pool as `after` for the next
        page."""
        no_transaction(tx)
        found = await self._pages(path_of("accounts", self.name, "usage"), read_pool_usage, limit, after=after)
        return [AccountUsage(one.pool, one.used, one.limit) for one in found]


class AsyncRemoteReads(AsyncRemoteSearches):
    """Everything that reads."""

    def __init__(self, transport: AsyncTransport, clock: ServerClock) -> None:
        super().__init__(transport, clock)
        self._executor = AsyncRemoteExecutor(transport, clock)
        self._limits = self._executor.limits

    async def pool(self, id: str, *, tx: Any = None) -> Pool:
        """One pool. Raises `PoolNotFound`."""
        no_transaction(tx)
        return pool_in(await self._transport.ask("GET", path_of("pools", text(id, "id", 512))))

    async def pools(
        self, prefix: str = "", *, archived: bool = False, after: str = "", limit: int = 100, tx: Any = None
    ) -> list[Pool]:
        """Pools in order of id; archived ones only if asked for. For the next page pass the last id as `after`."""
        no_transaction(tx)
        flag(archived, "archived")
        found = await self._pages("/v1/pools", read_pools, limit, after=after, prefix=prefix, archived=archived)
        return [pool_from(document) for document in found]

    async def get(self, hold: Hold | str | UUID, *, tx: Any = None) -> Hold:
        """A hold as it is now, without its token. Raises `HoldNotFound` or `HoldRetired`."""
        no_transaction(tx)
        id, _ = reference(hold, None)
        answer = await self._transport.ask("GET", path_of("holds", check_hold_id(id)))
        return hold_from(read_hold(answer.content), None)

    async def place(self, hold: Hold | str | UUID, *, tx: Any = None) -> int | None:
        """How many wait in line ahead of a hold, exact to 1,000; None if it does not wait. Raises `HoldNotFound` or
        `HoldRetired`."""
        no_transaction(tx)
        id, _ = reference(hold, None)
        return read_place((await self._get(path_of("holds", check_hold_id(id), "place"))).content).ahead

    def account(self, name: str) -> AsyncRemoteAccount:
        """What one account uses: ``hk.account("customer:7").usage()``."""
        return AsyncRemoteAccount(self._transport, self._clock, text(name, "account", MAX_ENTITY))

    async def history(
        self, hold: Hold | str | UUID, *, after: str | None = None, limit: int = 1_000, archive: object = None
    ) -> JournalPage[EntryAnswer]:
        """Return up to `limit` entries about a hold, in journal order, after a cursor. (`remote.journal.history` is the history of a
        pool.) Raises `CursorLost`."""
        not_from_files(archive)
        path = path_of("holds", check_hold_id(reference(hold, None)[0]), "history")
        return await self._entry_pages(path, limit, after)

    async def generation(self) -> str:
        """Return an opaque word that changes when the server's journal continues from another state: after a promotion,
        restore or import."""
        return await AsyncRemoteFollower(self._transport, self._clock, None).generation()

    async def ready(self) -> None:
        """Wait until the server is ready; raises `Overloaded` if it is not ready within the time of a call."""
        await self._transport.ask("GET", "/readyz")

    async def record(self, kind: str, id: str, *, tx: Any = None) -> Record | None:
        """One record, or None."""
        no_transaction(tx)
        try:
            answer = await self._get(record_path(kind, id))
        except InvalidRequest as missing:
            if missing.code != "record_not_found":
                raise
            return None
        document = read_record(answer.content).record
        return None if document is None else record_from(document)

    async def records(self, kind: str, *, after: str = "", limit: int = 100, tx: Any = None) -> list[Record]:
        """Records of a kind in order of id."""
        no_transaction(tx)
        found = await self._pages("/v1/records", read_records, limit, after=after, kind=text(kind, "kind", 64))
        return [record_from(document) for document in found]

    async def tenants(self, *, after: str = "", limit: int = 100) -> list[str]:
        """Names of the tenants that have pools or API keys, in order: for keys of the default tenant, which has no name
        and is not listed. For the next page pass the last one as `after`."""
        page = read_tenants((await self._get("/v1/tenants", after=after, limit=limit)).content)
        return [tenant.name for tenant in page.items]

    async def usage(self) -> StorageUsage:
        """What the key's tenant has stored: rows and bytes."""
        return usage_from(read_usage((await self._get("/v1/usage")).content).usage)

    async def sweep(self, limit: int = 500) -> SweepReport:
        """Expire what is due, of all tenants, and name it: for admins of the default tenant."""
        answer = await self._transport.ask("POST", "/v1/sweep", SweepBody(limit=limit))
        swept = read_sweep(answer.content)
        return SweepReport(
            swept.expired, tuple(swept.holds), tuple(swept.tenants), slot_of(swept.server_time), swept.more
        )

    async def limits_in_force(self) -> LimitsInForce:
        """The limits that are stored with the data: for keys of the default tenant."""
        return limits_in(await self._transport.ask("GET", "/v1/limits"))

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
        body = ChangeLimitsBody(
            limits=changes,
            if_version=if_version,
            actor=None if actor is None else actor_text(actor),
            correlation_id=correlation_id,
            reason=reason,
        )
        return limits_in(await self._transport.ask("POST", "/v1/limits", body, op=retry_key(op)))

    async def verify(self, *, progress: Progress | None = None, archive: object = None) -> VerifyReport:
        """Fold the whole journal and compare the result with every stored row, and sealed runs with their seals: for admins of the
        default tenant.
        Returns the first thousand differences.

        The server does it as a job, and this waits for the job, however long it takes. `progress(done, total)` is called
        now and then. If the wait is interrupted, or `progress` raises, the job is cancelled.
        """
        not_from_files(archive)
        job = read_verify((await self._transport.ask("POST", "/v1/verify", op=retry_key())).content)
        found = await self._result(job, read_verify, progress, "verification")
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
        """Erase what is stored about one person, in the data of the default tenant: for admins of it. As `Kernel.erase`.

        The server does it as a job, and this waits for the job. If the wait is interrupted, or `progress` raises, the job is
        cancelled: the same call does the rest. Where entries were archived, the server must know the directory of their files
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
        job = read_erase((await self._transport.ask("POST", "/v1/erase", body)).content)
        return (await self._result(job, read_erase, progress, "erasure")).erased

    async def _result(self, job: Job[R], read: Callable[[bytes], Job[R]], progress: Progress | None, what: str) -> R:
        """The result of a job, once it has ended; cancels it if the wait is interrupted."""
        try:
            job = await self._ended(job, read, progress)
        except HoldkitError:
            raise
        except BaseException:
            with suppress(HoldkitError):
                await self._transport.ask("DELETE", path_of("jobs", job.id))
            raise
        if job.result is None:
            why = f"was {job.state}" if job.problem is None else f"failed: {job.problem.detail}"
            raise EngineError(f"the {what} {why}")
        return job.result

    async def stats(self) -> dict[str, Any]:
        """The server's counters since it started."""
        answer = await self._transport.ask("GET", "/v1/stats")
        return msgspec.json.decode(answer.content, type=dict[str, Any])
