"""The remote kernel: the same methods and faces, results and exceptions as those of a kernel in your own process.

Faces that need only the executor are the kernel's own classes, over the remote executor. What is not available
raises `NotRemote`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from types import TracebackType
from typing import Any, Self, Unpack, overload

import httpx

from ...core.commands import AnyCommand, Ttl
from ...core.outcomes import Survives
from ...errors import InvalidRequest, OperationConflict
from ...faces._async.budget_sets import AsyncBudgetSet
from ...faces._async.budgets import AsyncBudget
from ...faces._async.calendar import AsyncCalendar
from ...faces._async.windows import AsyncRate, AsyncWindows
from ...faces.allowances import Allowance, meters_of
from ...faces.grid import Capacity, Closed, grid_of
from ...faces.windows import Zone
from ...kernel._async.blocking import waiting_time
from ...kernel._async.blocks import AsyncHolding, AsyncLease
from ...kernel._async.verbs import AsyncVerbs
from ...kernel.answers import Answer, Outcome, outcomes_of
from ...kernel.arguments import Call, What
from ...kernel.one_line import line
from ...kernel.prepare import prepared
from ...kernel.workers import GRACE
from ...wire.batches import BatchAnswer, CommandAnswer
from ...wire.problems import Facts
from ..answers import ServerClock, durability_of, hold_from, pool_from
from ..problems import Policy, refusal_from
from ..requests import command_json, path_of
from ..unsupported import UnsupportedOfKernel
from .admin import AsyncRemoteAdmin
from .budgets import AsyncRemoteBudget, AsyncRemoteBudgetSet
from .claims import AsyncRemoteClaims
from .items import AsyncRemoteItems
from .journal import AsyncRemoteJournal
from .reading import AsyncRemoteReads
from .sagas import AsyncRemoteSagas
from .seats import AsyncRemoteSeats
from .server import AsyncRemoteAccounts, AsyncRemoteServer
from .transport import AsyncTransport, no_transaction, retry_key


class AsyncRemoteVerbs(AsyncRemoteReads, AsyncVerbs):
    """Everything that changes pools and holds: the kernel's own methods over the remote executor, and batches, one
    request each."""

    async def apply(
        self, commands: Iterable[AnyCommand], *, atomic: bool = False, op: str | None = None, tx: Any = None
    ) -> list[Outcome]:
        """Decide several commands in one transaction, in order, and return what became of each. With `atomic=True` the refusal that
        stopped them is raised, with the `index` of its command. `op` stands for all of them."""
        no_transaction(tx)
        listed = prepared(commands, atomic, "", self._limits)
        if not listed:
            return []
        body = {"commands": [command_json(command) for command in listed], "atomic": atomic}
        try:
            answer = await self._transport.ask("POST", path_of("batch"), body, op=retry_key(op))
        except OperationConflict as used:  # the key of the whole batch
            return outcomes_of([used for _ in listed], atomic=atomic, op=used.subject)
        done: BatchAnswer = self._read("batch", answer)
        survives = durability_of(answer)
        read = [_answer(command, document, survives) for command, document in zip(listed, done.answers, strict=True)]
        return outcomes_of(read, atomic=atomic, op=op)


def _answer(command: AnyCommand, document: CommandAnswer, durability: Survives | None) -> Answer:
    if document.hold is not None:
        request = command.legs if command.names == "legs" else ()
        return hold_from(document.hold, getattr(command, "token", None), durability, request)
    if document.pool is not None:
        return pool_from(document.pool, document.replayed)
    reason, detail, facts = document.reason or "", document.detail or "", document.facts or Facts()
    refusal = refusal_from(reason, detail, facts, replayed=document.replayed)
    return refusal or InvalidRequest(detail, field=facts.field or "commands", code=facts.code or reason)


class AsyncRemoteKernel(AsyncRemoteVerbs, UnsupportedOfKernel):
    """A server's kernel, for the tenant of the API key. Safe to share; close it when done."""

    def __init__(self, url: str, *, key: str | None = None, policy: Policy | None = None, http: Any = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        chosen = policy or Policy()
        if http is None:
            http = httpx.AsyncClient(timeout=httpx.Timeout(10.0, read=chosen.seconds), follow_redirects=False)
        super().__init__(AsyncTransport(http, chosen, url, headers), ServerClock())
        self.url = url
        self._tenant = ""  # the server knows it by the key

    @cached_property
    def claims(self) -> AsyncRemoteClaims:
        """Keys that only one holder can have: an email address, a user name."""
        return AsyncRemoteClaims(self._transport, self._clock)

    @cached_property
    def items(self) -> AsyncRemoteItems:
        """Single things, each available, held or confirmed: vouchers, postings."""
        return AsyncRemoteItems(self._transport, self._clock)

    @property
    def admin(self) -> AsyncRemoteAdmin:
        """What an operator does: change pools, pass tokens and limits with a reason, verify, erase, find."""
        return AsyncRemoteAdmin(self._transport, self._clock, self._executor)

    @cached_property
    def seats(self) -> AsyncRemoteSeats:
        """Items with a place in a section; the server holds the best free ones."""
        return AsyncRemoteSeats(self._transport, self._clock)

    @cached_property
    def journal(self) -> AsyncRemoteJournal:
        """The record of every change: list, search and follow it."""
        return AsyncRemoteJournal(self._transport, self._clock, self._executor)

    @cached_property
    def sagas(self) -> AsyncRemoteSagas:
        """Sagas, to read and to resolve."""
        return AsyncRemoteSagas(self._transport, self._clock)

    @cached_property
    def accounts(self) -> AsyncRemoteAccounts:
        """What accounts use of the pools."""
        return AsyncRemoteAccounts(self._transport, self._clock)

    @property
    def server(self) -> AsyncRemoteServer:
        """What only a server has: API keys, webhooks, its tenants, its histories and stored sets of budgets."""
        return AsyncRemoteServer(self._transport, self._clock)

    def rate(self, name: str, *allowances: Allowance) -> AsyncRate:
        """Limit what each client uses per window, with allowances that you define here: needs an admin key."""
        return AsyncRate(
            AsyncWindows(self._executor, self._call_fields, "", meters_of("rates", name, {"": allowances}))
        )

    @overload
    def budget(self, name: str, /) -> AsyncRemoteBudget: ...
    @overload
    def budget(self, name: str, /, **amounts: Allowance | tuple[Allowance, ...]) -> AsyncBudget: ...
    def budget(self, name: str, /, **amounts: Allowance | tuple[Allowance, ...]) -> AsyncBudget:
        """Hold several budgets together: the set that is defined on the server, or one that you define here, which needs an admin key."""
        if not amounts:
            return AsyncRemoteBudget(AsyncRemoteBudgetSet(self._transport, self._clock, self._executor, name))
        return AsyncBudget(AsyncBudgetSet(self._executor, self._call_fields, "", meters_of("budgets", name, amounts)))

    def calendar(
        self,
        name: str,
        rooms: Mapping[str, Capacity],
        *,
        zone: Zone = "UTC",
        every: Ttl | None = None,
        closed: Closed = (),
    ) -> AsyncCalendar:
        """Hold rooms by nights, or by times of day, as you define them here: needs an admin key."""
        return AsyncCalendar(self._executor, self._call_fields, "", grid_of(name, rooms, zone, every, closed))

    def holding(
        self,
        what: What,
        quantity: int | None = None,
        *,
        ttl: Ttl,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        account: str | None = None,
        **call: Unpack[Call],
    ) -> AsyncHolding:
        """Hold units for a block: confirm when the body ends, release when it raises. Raises `HoldExpired` if it is too late."""
        no_transaction(call.get("tx"))
        command = self._placing(what, quantity, call, ttl=ttl, metadata=metadata, account=account)
        return AsyncHolding(self._executor, command, entity)

    def lease(
        self,
        what: What,
        quantity: int | None = None,
        *,
        ttl: Ttl,
        account: str | None = None,
        wait: Ttl | None = None,
        **call: Unpack[Call],
    ) -> AsyncLease:
        """Take a job slot, renewed inside the block and always released; `lost` and `check()` tell whether it was lost. With `wait`,
        entering the block waits in line for the units."""
        no_transaction(call.get("tx"))
        command = self._placing(what, quantity, call, ttl=ttl, account=account)
        return AsyncLease(self._executor, command, waiting_time(wait, call))

    async def close(self) -> None:
        """End leases, listeners and followers, and close every connection. Closing twice does nothing."""
        workers = list(self._executor.workers)
        for worker in workers:
            worker.stop.close()
        self._transport.end_reads()
        for worker in workers:
            await worker.end(GRACE)
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return line(type(self).__name__, self.url)
