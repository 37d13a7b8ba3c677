# Generated from ../_async/kernel.py by tools/gen_sync.py: do not edit.
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
from .accounts import Accounts
from .background import Sweeper
from .blocking import waiting_time
from .blocks import Holding, Lease
from .journal_reads import Journal
from .reads import Reads
from .tracing import TracedExecutor
from .verbs import Verbs


class Holds(Reads, Verbs):
    """A connection to one engine, for one tenant; safe to share by everything that runs in this process.

    The kernel without its faces; `holdkit.Kernel` adds those.
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
        return type(self)(TracedExecutor.of(self._executor, tracer), self._tenant)

    @cached_property
    def accounts(self) -> Accounts:
        """What accounts use of the pools."""
        return Accounts(self._executor, self._tenant)

    @cached_property
    def journal(self) -> Journal:
        """The record of every change: list, search and follow it."""
        return Journal(self._executor, self._tenant)

    @property
    def _limits(self) -> LimitsInForce:
        """The limits as this process knows them, intervals as timedeltas."""
        return limits_of(self._executor.limits)

    @property
    def url(self) -> str:
        """The URL of its engine."""
        return self._executor.engine.url

    def apply(
        self, commands: Iterable[AnyCommand], *, atomic: bool = False, op: str | None = None, tx: Any = None
    ) -> list[Outcome]:
        """Decide several commands in one transaction, in order, and return what became of each.

        A refused command has no effect and the others stand. With `atomic=True` either all of them are applied, or the refusal that
        stopped them is raised, with the `index` of its command. A malformed command raises `InvalidRequest`, and nothing is done.

        Legs may be a face's: what `holdkit.claim`, `holdkit.items`, and `legs` of a budget or calendar give.

        `op` is one retry key for all of them. If it was used before for another batch, every outcome is `OperationConflict`.
        """
        group = self._group(commands, atomic, op)
        if not group.commands:
            return []
        answers = self._executor.answers(group, self._executor.submit(group, tx))
        return outcomes_of(answers, atomic=atomic, op=op)

    def lock(self, pools: Iterable[str] = (), *, tx: Any) -> None:
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
        self._executor.lock(tx, [(self._tenant, name) for name in every])

    def _group(self, commands: Iterable[AnyCommand], atomic: bool, op: str | None) -> Group:
        limits, asked = self._executor.limits, commands
        if isinstance(asked, Iterable):
            asked = [*islice(asked, limits.max_batch + 1)]  # one too many is enough to be refused
        try:
            ready = prepared(asked, atomic, self._tenant, limits, op)
        except InvalidRequest as error:
            if not self._executor.limits_changed(error):
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
    ) -> Holding:
        """Return a block that holds: leaves normally → confirmed; raises → released; too late → `HoldExpired`."""
        _no_transaction(call)
        command = self._placing(what, quantity, call, ttl=ttl, metadata=metadata, account=account)
        return Holding(self._executor, command, entity)

    def lease(
        self,
        what: What,
        quantity: int | None = None,
        *,
        ttl: Ttl,
        account: str | None = None,
        wait: Ttl | None = None,
        **call: Unpack[Call],
    ) -> Lease:
        """Return a job slot: renewed while inside, always released; `lost` and `check()` tell when it was taken away. With `wait`, entering
        the block waits in line for the units, as `hold` does."""
        _no_transaction(call)
        command = self._placing(what, quantity, call, ttl=ttl, account=account)
        return Lease(self._executor, command, waiting_time(wait, call))

    def sweeper(self, every: float = 5, *, limit: int = 500, seals: Sealing | None = None) -> Sweeper:
        """Sweep in the background; `every` is the interval in seconds. Answers are right without it; it keeps tables small. With
        `seals` it also seals the journal, after each sweep that leaves nothing due.

        It works for all tenants; on a kernel that is bound to one, `expired` counts the holds of that tenant."""
        if type(every) not in (int, float) or not 0 < every <= 86_400:
            raise invalid("every", "every_out_of_range", "must be seconds above 0, at most a day")
        sealer = None if seals is None else seals.sealer(self._executor.engine)
        return Sweeper(self, self._executor, every, whole(limit, "limit", 1, MAX_SWEEP), sealer)

    def close(self) -> None:
        """Finish what runs, end followers and listeners, close the engine. Closing twice is quiet."""
        self._executor.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return line(type(self).__name__, self.url, self._tenant and f"tenant={self._tenant}")


def _no_transaction(call: Call) -> None:
    if call.get("tx") is not None:
        raise invalid("tx", "tx_unsupported", "a block spans several transactions: use hold() and confirm() with tx=")
