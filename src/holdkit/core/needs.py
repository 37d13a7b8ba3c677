"""The needs of a batch: the pools, holds, operations, records and tallies that an engine loads before the core decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct, structs

from .command_kinds import HoldCommand, Placing, PoolCommand
from .commands import ChangeLimits, CreatePool, Group, LeaveLine, PutRecord, RemovePool, ReturnToPool, Sweep
from .erased_names import ErasedNames
from .face_legs import FaceLeg
from .limits import LIMITS_KEY
from .model import Key, RecordKey, StoredHold
from .outstanding import TallyKey, tallied
from .trees import SEPARATOR, all_pools, ancestors, parent_of, path_of

NO_ACCOUNTS: Final[Mapping[Key, Collection[str]]] = MappingProxyType({})


class Needs(Struct, frozen=True):
    """The rows to load for a batch: a fixed set of queries, so that every engine can answer them in a few statements."""

    pools: set[Key]
    holds: set[Key]
    operations: set[Key]
    records: set[RecordKey]
    sweep: int = 0
    """Up to this many holds with due legs on any pool, and prunable pools."""
    standing: set[Key] = set()
    """Those holds that the batch does not create; loaded together with the pools of their legs."""
    asked: set[Key] = set()
    """Those operations that belong to commands that place no hold."""
    created: set[Key] = set()
    """Those pools that the batch may create: the fence floors of their tenants are loaded."""
    tallies: set[TallyKey] = set()
    """The tallies of accounts that the batch names; those of the holds that it names are loaded with them (`tallies_of`)."""
    accounts: dict[Key, list[str]] = {}
    """The accounts that commands name for holds that exist, by hold: their tallies are loaded with those of the hold's own."""

    @property
    def changes_limits(self) -> bool:
        """Whether the batch may bound a table that has no bound yet."""
        return LIMITS_KEY in self.records


def needs(groups: Sequence[Group], names: ErasedNames | None = None) -> Needs:
    """Return the rows to load for these groups; where names were erased, also those that recognise the names in the groups."""
    need, sweep = Needs(set(), set(), set(), set()), 0  # `set[Key]()` is several times slower
    for group in groups:
        for command in group.commands:
            if command.names == "legs":
                _name_legs(need, command)
                continue
            if command.op is not None:
                need.asked.add((command.tenant, command.op))
            if command.names == "hold":
                _name_hold(need, command)
            elif command.names == "pool":
                _name_pool(need, command)
            elif isinstance(command, Sweep):
                sweep = max(sweep, command.limit)
            else:
                _name_record(need, command)
        if group.guard is not None:
            need.asked.add((group.guard.tenant, group.guard.op))
    need.holds.update(need.standing)
    need.operations.update(need.asked)
    if need.accounts:
        need.tallies.update(_tallies_of_placed(groups, need.accounts))
    if names is not None:
        need.pools.update([(key[0], id) for key in need.pools if (id := names.claim(*key)) is not None])
        need.tallies.update([other for key in need.tallies for other in _others(key, names)])
    return structs.replace(need, sweep=sweep) if sweep else need


def _name_legs(need: Needs, command: Placing) -> None:
    """Add the needs of a command that places a hold."""
    tenant, pools = command.tenant, need.pools
    assert command.id is not None
    need.holds.add((tenant, command.id))
    if command.op is not None:
        need.operations.add((tenant, command.op))
    for leg in command.legs:
        key = (tenant, leg.pool)
        pools.add(key)
        if SEPARATOR in leg.pool:
            pools.update([(tenant, name) for name in ancestors(leg.pool)])
        if leg.create_with_total is not None or (type(leg) is FaceLeg and leg.total is not None):
            need.created.add(key)
    if command.account is not None:
        need.tallies.update(_counted(tenant, all_pools(command.legs), command.account))


def _name_hold(need: Needs, command: HoldCommand) -> None:
    """Add the needs of a command that names a hold."""
    key = (command.tenant, command.id)
    need.standing.add(key)
    if type(command) is LeaveLine and command.placed_op is not None:  # its recorded answer is replaced
        need.asked.add((command.tenant, command.placed_op))
    if (account := getattr(command, "account", None)) is not None:
        need.accounts.setdefault(key, []).append(account)


def _name_pool(need: Needs, command: PoolCommand) -> None:
    """Add the needs of a command that names a pool."""
    tenant, pools = command.tenant, pools_named(command)
    need.pools.update([(tenant, name) for name in pools])
    if isinstance(command, CreatePool):
        need.created.add((tenant, command.id))
    if (account := getattr(command, "account", None)) is not None:
        need.tallies.update(_counted(tenant, pools, account))


def _name_record(need: Needs, command: PutRecord | ChangeLimits) -> None:
    """Add the record that a command writes."""
    need.records.add((command.tenant, command.kind, command.id) if isinstance(command, PutRecord) else LIMITS_KEY)


def _others(key: TallyKey, names: ErasedNames) -> list[TallyKey]:
    """Return the tallies of the same account under other names."""
    tenant, pool, account = key
    return [(tenant, pool, name) for name in names.others(tenant, account)]


def _tallies_of_placed(groups: Sequence[Group], accounts: Mapping[Key, Collection[str]]) -> Iterator[TallyKey]:
    """Yield the tallies of these accounts on the pools of the holds that the batch itself places."""
    for command in (command for group in groups for command in group.commands if command.names == "legs"):
        for account in accounts.get((command.tenant, command.id or ""), ()):
            yield from _counted(command.tenant, all_pools(command.legs), account)


def _counted(tenant: str, pools: Iterable[str], account: str) -> list[TallyKey]:
    return [(tenant, name, account) for name in pools if tallied(name, account) is not None]


def pools_named(command: PoolCommand) -> tuple[str, ...]:
    """Return the pools that a command about one pool changes or looks at."""
    if isinstance(command, ReturnToPool):
        return path_of(command.id)
    parent = parent_of(command.id) if isinstance(command, CreatePool | RemovePool) else None
    return (command.id,) if parent is None else (command.id, parent)


def tallies_of(
    holds: Iterable[StoredHold],
    names: ErasedNames | None = None,
    accounts: Mapping[Key, Collection[str]] = NO_ACCOUNTS,
) -> set[TallyKey]:
    """Return the tallies that move with the units of these holds: of their own accounts and of those that a batch names for them. Where
    names were erased, add those that are counted with them."""
    moving = {
        key
        for hold in holds
        for account in (hold.account, *accounts.get(hold.key, ()))
        if account is not None
        for key in _counted(hold.tenant, hold.pools, account)
    }
    return moving if names is None else moving.union(*(_others(key, names) for key in moving))
