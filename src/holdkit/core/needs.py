"""What a batch needs: which pools, holds, operations, records and tallies an engine loads before the core decides."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from .commands import (
    PLACING,
    AnyCommand,
    ArchivePool,
    ChangeLimits,
    CreatePool,
    FeedLine,
    Group,
    LeaveLine,
    LimitPool,
    PoolCommand,
    PutRecord,
    RemovePool,
    ResizePool,
    ReturnToPool,
    Sweep,
    UnarchivePool,
)
from .limits import LIMITS_KEY
from .model import Key, RecordKey, StoredHold
from .outstanding import TallyKey, tallied
from .trees import all_pools, parent_of, path_of

POOL_COMMANDS: Final = (
    CreatePool,
    ResizePool,
    LimitPool,
    RemovePool,
    ArchivePool,
    UnarchivePool,
    ReturnToPool,
    FeedLine,
)
POOLLESS: Final = (PutRecord, ChangeLimits, Sweep)


class Needs(Struct, frozen=True):
    """What must be loaded for a batch: a fixed set of queries, so that every engine can answer them in a few statements."""

    pools: set[Key]
    holds: set[Key]
    operations: set[Key]
    records: set[RecordKey]
    sweep: int = 0
    """Up to this many holds with due legs on any pool, and prunable pools."""
    standing: frozenset[Key] | set[Key] = frozenset()
    """Those holds that the batch does not create; loaded together with the pools of their legs."""
    asked: frozenset[Key] | set[Key] = frozenset()
    """Those operations that belong to commands other than PlaceHold, Consume and JoinLine."""
    created: frozenset[Key] | set[Key] = frozenset()
    """Those pools that the batch may create: the fence floors of their tenants are loaded."""
    tallies: frozenset[TallyKey] | set[TallyKey] = frozenset()
    """The tallies of accounts that the batch names; those of the holds that it names are loaded with them (`tallies_of`)."""

    @property
    def changes_limits(self) -> bool:
        """Whether the batch may bound a table that has no bound yet."""
        return LIMITS_KEY in self.records


def needs(groups: Iterable[Group]) -> Needs:
    """What must be loaded for these groups."""
    pools, holds, standing = set[Key](), set[Key](), set[Key]()
    operations, asked, created = set[Key](), set[Key](), set[Key]()
    records = set[RecordKey]()
    tallies = set[TallyKey]()
    limit = 0
    for group in groups:
        for command in group.commands:
            tenant = command.tenant
            if command.op is not None:
                (operations if isinstance(command, PLACING) else asked).add((tenant, command.op))
            if isinstance(command, PLACING):
                pools.update([(tenant, name) for name in all_pools(command.legs)])
                created.update(
                    [
                        (tenant, leg.pool)
                        for leg in command.legs
                        if leg.create_with_total is not None or leg.total is not None
                    ]
                )
                if command.account is not None:
                    tallies.update(_tallies_named(command))
                assert command.id is not None
                holds.add((tenant, command.id))
            elif isinstance(command, POOL_COMMANDS):
                pools.update([(tenant, name) for name in pools_named(command)])
                tallies.update(_tallies_named(command))
                if isinstance(command, CreatePool):
                    created.add((tenant, command.id))
            elif isinstance(command, PutRecord | ChangeLimits):
                records.add((tenant, command.kind, command.id) if isinstance(command, PutRecord) else LIMITS_KEY)
            elif isinstance(command, Sweep):
                limit = max(limit, command.limit)
            else:
                standing.add((tenant, command.id))
                if isinstance(command, LeaveLine) and command.placed_op is not None:
                    asked.add((tenant, command.placed_op))
        if group.guard is not None:
            asked.add((group.guard.tenant, group.guard.op))
    return Needs(pools, holds | standing, operations | asked, records, limit, standing, asked, created, tallies)


def _tallies_named(command: AnyCommand) -> Iterable[TallyKey]:
    """The tallies of the account that a command names."""
    account: str | None = getattr(command, "account", None)
    if account is None:
        return ()
    names = all_pools(command.legs) if isinstance(command, PLACING) else pools_named(command)  # type: ignore[arg-type]
    return [(command.tenant, name, account) for name in names if tallied(name, account) is not None]


def pools_named(command: PoolCommand) -> tuple[str, ...]:
    """The pools that a command about one pool changes or looks at."""
    if isinstance(command, ReturnToPool):
        return path_of(command.id)
    parent = parent_of(command.id) if isinstance(command, CreatePool | RemovePool) else None
    return (command.id,) if parent is None else (command.id, parent)


def tallies_of(holds: Iterable[StoredHold]) -> set[TallyKey]:
    """The tallies that move with the units of these holds."""
    return {
        (hold.tenant, name, hold.account)
        for hold in holds
        if hold.account is not None
        for name in hold.pools
        if tallied(name, hold.account) is not None
    }
