"""The kernel without its faces: reads, verbs, batches, blocks, the sweeper and listeners of one tenant."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from types import TracebackType
from typing import Any, Self, Unpack

from ...core.commands import AnyCommand, Group, Ttl
from ...core.standing_checks import MAX_SWEEP
from ...core.trees import path_of
from ...core.validation import invalid, pool_id, text, whole
from ...errors import InvalidRequest
from ..answers import Outcome, outcomes_of
from ..arguments import Call, What, call_fields
from ..limits import LimitsInForce, limits_of
from ..one_line import line
from ..prepare import guarded, prepared
from ..seals import Sealing
from ..tracing import Tracer
from .accounts import AsyncAccounts
from .background import AsyncSweeper
from .blocking import waiting_time
from .blocks import AsyncHolding, AsyncLease
from .journal_reads import AsyncJournal
from .reads import AsyncReads
from .tracing import AsyncTracedExecutor
from .verbs import AsyncVerbs


class AsyncHolds(AsyncReads, AsyncVerbs):
    """A connection to one engine, for one tenant; safe to share by everything that runs in this process.

    The kernel without its faces; `holdkit.AsyncKernel` adds those.
    """

    def _call_fields(self, call: Call) -> dict[str, Any]:
        return call_fields(call, self._tenant)

    def tenant(self, name: str) -> Self:
        """Return this kernel bound to a tenant: its pools, holds, operation ids, reads and journal are its own. (Queue and
        engine are shared: closing one closes all.)"""
        return type(self)(self._executor, text(name, "tenant", 64))

    def _traced(self, tracer: Tracer) -> Self:
        """Return this kernel with tracing: it shares queue and engine, and puts spans around recorded calls. Use
        `holdkit.contrib.opentelemetry.instrument`, which has a tracer."""
        return type(self)(AsyncTracedExecutor.of(self._executor, tracer), self._tenant)

    @cached_property
    def accounts(self) -> AsyncAccounts:
        """What accounts use of the pools."""
        return AsyncAccounts(self._executor, self._tenant)

    @cached_property
    def journal(self) -> AsyncJournal:
        """The record of every change: list, search and follow it."""
        return AsyncJournal(self._executor, self._tenant)

    @property
    def _limits(self) -> LimitsInForce:
        """The limits as this process knows them, intervals as timedeltas."""
        return limits_of(self._executor.limits)

    @property
    def url(self) -> str:
        """The URL of its engine."""
        return self._executor.engine.url

    async def apply(
        self, commands: Iterable[AnyCommand], *, atomic: bool = False, op: str | None = None, tx: Any = None
    ) -> list[Outcome]:
        """Decide several commands in one transaction, in order, and return what became of each.

        A refused command has no effect and the others stand. With `atomic=True` either all of them are applied, or the refusal that
        stopped them is raised, with the `index` of its command. A malformed command raises `InvalidRequest`, and nothing is done.

        Legs may be a face's: what `holdkit.claim`, `holdkit.items`, and `legs` of a budget or calendar give.

        `op` is one retry key for all of them. If it was used before for another batch, every outcome is `OperationConflict`.
        """
        group = await self._group(commands, atomic, op)
        if not group.commands:
            return []
        answers = await self._executor.answers(group, await self._executor.submit(group, tx))
        return outcomes_of(answers, atomic=atomic, op=op)

    async def lock(self, pools: Iterable[str] = (), *, tx: Any) -> None:
        """Lock these pools, and those above them, in the caller's transaction, before several calls with `tx=`; pools that do not
        exist are ignored. (SQLite has one write lock for all pools, which this takes.)"""
        names: object = (pools,) if isinstance(pools, str) else pools
        if not isinstance(names, list | tuple | set | frozenset):
            raise invalid("pools", "pools_malformed", "must be a list of pool ids")
        for name in names:
            pool_id(name, "pools", faces=True)
        if tx is None:
            raise invalid("tx", "tx_required", "there is nothing to lock outside of a transaction")
        every = sorted({level for name in names for level in path_of(name)})
        await self._executor.lock(tx, [(self._tenant, name) for name in every])

    async def _group(self, commands: Iterable[AnyCommand], atomic: bool, op: str | None) -> Group:
        limits, asked = self._executor.limits, commands
        if isinstance(asked, Iterable):
            asked = [*islice(asked, limits.max_batch + 1)]  # one too many is enough to be refused
        try:
            ready = prepared(asked, atomic, self._tenant, limits, op)
        except InvalidRequest as error:
            if not await self._executor.limits_changed(error):
                raise
            limits = self._executor.limits
            ready = prepared(asked, atomic, self._tenant, limits, op)
        return guarded(self._executor.mint.prepare_all(ready), atomic, op, limits.version)

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
        """Return a block that holds: leaves normally → confirmed; raises → released; too late → `HoldExpired`."""
        _no_transaction(call)
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
        """Return a job slot: renewed while inside, always released; `lost` and `check()` tell when it was taken away. With `wait`, entering
        the block waits in line for the units, as `hold` does."""
        _no_transaction(call)
        command = self._placing(what, quantity, call, ttl=ttl, account=account)
        return AsyncLease(self._executor, command, waiting_time(wait, call))

    def sweeper(self, every: float = 5, *, limit: int = 500, seals: Sealing | None = None) -> AsyncSweeper:
        """Sweep in the background; `every` is the interval in seconds. Answers are right without it; it keeps tables small. With
        `seals` it also seals the journal, after each sweep that leaves nothing due.

        It works for all tenants; on a kernel that is bound to one, `expired` counts the holds of that tenant."""
        if type(every) not in (int, float) or not 0 < every <= 86_400:
            raise invalid("every", "every_out_of_range", "must be seconds above 0, at most a day")
        sealer = None if seals is None else seals.sealer(self._executor.engine)
        return AsyncSweeper(self, self._executor, every, whole(limit, "limit", 1, MAX_SWEEP), sealer)

    async def close(self) -> None:
        """Finish what runs, end followers and listeners, close the engine. Closing twice is quiet."""
        await self._executor.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return line(type(self).__name__, self.url, self._tenant and f"tenant={self._tenant}")


def _no_transaction(call: Call) -> None:
    if call.get("tx") is not None:
        raise invalid("tx", "tx_unsupported", "a block spans several transactions: use hold() and confirm() with tx=")
