# Generated from ../_async/deletion.py by tools/gen_sync.py: do not edit.
"""Deletion of a tenant: everything that it has stored ends or goes, through ordinary commands in bounded steps.

Theory of operation. The tenant is disabled first, so nothing new comes; a server that has not heard of it yet may still write for a
second, so a round that found anything is followed by another one. Each round

1. releases every hold by force, waiting ones too, and returns what was consumed, so that the units of its pools are all available,
2. returns the units whose holds are gone, and removes every pool, those below another one first,
3. removes every record: webhooks, followers, sagas, budgets, and the tenant's own.

Then its API keys go, and last the record that says that the tenant is being deleted. Every step is journaled with actor and reason,
so replay and `verify` stay right. A deletion that was killed or cancelled leaves the tenant disabled, and is started again: it finds
what is left. What stays: the journal; ended holds until their retention is over; recorded answers until their window is over; and the tenant's fence
floor, for ever, so that a tenant of the same name never gets a fence that a downstream system has seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias, Unpack

from ...core.commands import (
    AnyCommand,
    Group,
    PutRecord,
    ReleaseHold,
    RemovePool,
    ReturnToPool,
    ReturnUnits,
)
from ...core.model import Pool, StoredHold
from ...core.outcomes import Receipt
from ...core.reading import ListHolds, ListKinds, ListPools, ListRecords, ReadPoolHistory, entry_of
from ...core.validation import invalid
from ...faces._sync.kernel import Kernel
from ...kernel.arguments import Call, call_fields
from ...wire.tenants import DeletedAnswer
from ..tenants import check_tenant
from .keystore import Keys
from .tenants import Tenants

PAGE: Final = 100
MOST_LEGS: Final = 1_000
"""Legs that one transaction touches, unless one hold alone has more."""
ROUNDS: Final = 10
HOOK_TENANTS: Final = "~webhooks"
"""The kind of the records, in the default tenant, that name the tenants with webhooks."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the number of steps done and the estimated total. An exception ends the deletion."""


class Deletion:
    """The deletion of one tenant."""

    def __init__(self, kernel: Kernel, keys: Keys, tenants: Tenants, tenant: str, **call: Unpack[Call]) -> None:
        self._executor, self._keys, self._tenants, self._call = kernel._executor, keys, tenants, call
        self.deleted = DeletedAnswer(tenant)
        self._fields = call_fields(call, check_tenant(tenant))
        self._fields["reason"] = self._fields["reason"] or "the tenant is deleted"
        self._total = 0

    def check(self, confirm: str) -> None:
        """Refuse a tenant that is not disabled, and a name that was not given twice. Change nothing."""
        tenant = self.deleted.tenant
        if confirm != tenant:
            raise invalid("confirm", "confirm_differs", "must be the name of the tenant once more")
        if (self._tenants.find(tenant)).state == "active":
            raise invalid("tenant", "tenant_active", "must be disabled before it is deleted")

    def run(self, progress: Progress, total: int = 0) -> DeletedAnswer:
        """Delete until nothing is left. `total` estimates the number of rows."""
        self._total, tenant = total, self.deleted.tenant
        self._tenants.set_state(tenant, "deleting", **self._call)
        for _ in range(ROUNDS):
            before = self.deleted.all
            self._end_holds(progress)
            self._remove_pools(progress)
            self._remove_records(progress)
            if self.deleted.all == before:
                break
        if self._tenants.has_pools(tenant):
            raise invalid("tenant", "tenant_in_use", "still has pools in use: start the deletion again")
        for key in self._keys.stored():
            if key.tenant == tenant:
                self._keys.remove(key.id)
                self.deleted.keys += 1
                self._report(progress)
        self._executor.execute(PutRecord(kind=HOOK_TENANTS, id=f"={tenant}", body=None), faces=True)
        rollups = self._executor.engine.capabilities.rollups
        if rollups is not None:
            self._executor.run_blocking(partial(rollups.drop, tenant))
        self._tenants.forget(tenant, **self._call)
        return self.deleted

    def _report(self, progress: Progress) -> None:
        progress(self.deleted.all, max(self._total, self.deleted.all))

    def _end_holds(self, progress: Progress) -> None:
        commands, legs = list[AnyCommand](), 0
        for hold in self._holds():
            its = self._ending(hold)
            if commands and legs + len(hold.legs) * len(its) > MOST_LEGS:
                self._apply(commands)
                self._report(progress)
                commands, legs = [], 0
            commands += its
            legs += len(hold.legs) * len(its)
            self.deleted.holds += bool(its)
        self._apply(commands)
        self._report(progress)

    def _holds(self) -> Iterator[StoredHold]:
        after = ""
        while True:
            page = self._executor.read(ListHolds(self.deleted.tenant, after=after, limit=PAGE))
            for hold in page:
                yield hold
            if not page.more:
                return
            after = page.reached or ""

    def _ending(self, hold: StoredHold) -> list[AnyCommand]:
        """Return the commands that make all units of a hold available."""
        commands: list[AnyCommand] = []
        if hold.live:
            commands.append(ReleaseHold(id=hold.id, force=True, **self._fields))
        if hold.consumes:
            commands.append(ReturnUnits(id=hold.id, force=True, **self._fields))
        return commands

    def _remove_pools(self, progress: Progress) -> None:
        for prefix in ("", "~"):
            after = ""
            while True:
                page = self._executor.read(ListPools(self.deleted.tenant, prefix, after, PAGE, archived=True))
                commands: list[AnyCommand] = []
                for pool in reversed(page):  # a pool's id begins with that of the pool above it
                    for account, loose in (self._loose(pool)).items():
                        commands.append(
                            ReturnToPool(id=pool.id, quantity=loose, account=account, force=True, **self._fields)
                        )
                    commands.append(RemovePool(id=pool.id, **self._fields))
                self.deleted.pools += self._apply(commands, RemovePool)
                self._report(progress)
                if len(page) < PAGE:
                    break
                after = page[-1].id

    def _loose(self, pool: Pool) -> dict[str | None, int]:
        """Return by account (None: without one) the consumed units whose holds are gone. No row lists the accounts of a pool, but its
        history names them; read it only if there are such units."""
        loose: dict[str | None, int] = {None: pool.loose}
        after: dict[int, int] = {}
        more = pool.consumed > pool.loose
        while more:
            page = self._executor.read(ReadPoolHistory(pool.tenant, pool.id, after))
            for row in page:
                after[row.lane] = row.seq
                for effect in entry_of(row).effects:
                    if effect.pool.id == pool.id and effect.tally is not None:
                        loose[effect.tally.account] = effect.tally.loose
            more = page.more
        return {account: units for account, units in loose.items() if units}

    def _remove_records(self, progress: Progress) -> None:
        tenant, kind = self.deleted.tenant, ""
        while kinds := self._executor.read(ListKinds(tenant, kind, 1)):
            kind = kinds[0]
            while page := self._executor.read(ListRecords(tenant, kind, "", PAGE)):
                commands = [PutRecord(kind=kind, id=row.id, body=None, **self._fields) for row in page]
                removed = self._apply(commands)
                self.deleted.records += removed
                self._report(progress)
                if not removed:
                    break

    def _apply(self, commands: Sequence[AnyCommand], kind: type[AnyCommand] | None = None) -> int:
        """Apply commands in one transaction, each by itself. Return how many (of a kind) were applied. A refused one met another
        client's change: the next round sees it."""
        if not commands:
            return 0
        checked = self._executor.check(*commands, faces=True)
        replies = self._executor.submit(Group(self._executor.mint.prepare_all([*commands]), checked=checked))
        return sum(
            isinstance(reply, Receipt) and (kind is None or isinstance(command, kind))
            for command, reply in zip(commands, replies, strict=True)
        )
