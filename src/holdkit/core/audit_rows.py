"""The input of an audit: the state that the journal folds to, and the rows that an engine has stored.

Both give their tables in key order, so that they can be compared row by row; neither has to fit in memory. Rows that
differ are kept in `Mismatches`, for a repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from .model import Key, Pool, Record, RecordKey, Slot, StoredHold
from .outstanding import OpenLeg, Tally, TallyKey, tallied
from .trees import path_of

K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")

LegKey: TypeAlias = tuple[str, str, Slot, str]
"""Tenant, pool, deadline, hold. A leg without a deadline is stored under the last slot."""


TenantKey: TypeAlias = tuple[str]
"""Tenant."""


class Difference(Struct, frozen=True):
    """One stored row, or one entry, that differs from what the journal says."""

    table: str
    key: str
    field: str
    stored: str
    expected: str

    def __str__(self) -> str:
        return f"{self.table} {self.key}: {self.field} is {self.stored}, the journal says {self.expected}"

    def __repr__(self) -> str:
        text = f"Difference {self.table} {self.key} {self.field}".replace("~", "")
        return f"<{text if len(text) <= 118 else text[:117] + '…'}>"


Found: TypeAlias = tuple[K, V | None, Sequence[Difference]]
"""A stored row: its key, the row (None if it cannot be decoded), and its own faults, whatever the journal says."""


def row_name(key: tuple[str, ...]) -> str:
    """Return the name of a row in reports, unique within its table: a pool is named by tenant and id."""
    *above, last = key
    if not above[0] and "/" not in last:
        del above[0]
    return "/".join([*(part.replace("%", "%25").replace("/", "%2F") for part in above), last])


def leg_name(tenant: str, pool: str, hold: str) -> str:
    """Return the name of a leg in reports."""
    return f"{row_name((tenant, pool))} of hold {hold}"


def floor_name(tenant: str) -> str:
    """Return the name of a tenant's fence floor in reports."""
    return tenant or "(default tenant)"


# The two inputs


class Rows(Protocol[K, V]):
    """One table of a folded state."""

    def get(self, key: K, /) -> V | None:
        """Return the row as it is now."""
        ...

    def put(self, key: K, row: V | None, /) -> None:
        """Write or (with None) remove a row."""
        ...

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield every row, in key order."""
        ...


MakeTable: TypeAlias = Callable[[Any, int], Rows[Any, Any]]
"""Creates an empty table, given the type of its rows and the number of parts of a key."""


class RowsInMemory(Generic[K, V]):
    """A table in memory."""

    def __init__(self) -> None:
        self._rows: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        """Return the row as it is now."""
        return self._rows.get(key)

    def put(self, key: K, row: V | None) -> None:
        """Write or (with None) remove a row."""
        if row is None:
            self._rows.pop(key, None)
        else:
            self._rows[key] = row

    def items(self) -> Iterator[tuple[K, V]]:
        """Yield every row, in key order."""
        return iter(sorted(self._rows.items(), key=itemgetter(0)))


def in_memory(_kind: Any, _width: int) -> Rows[Any, Any]:
    """Return a table in memory, the default."""
    return RowsInMemory()


class Folded:
    """The state rebuilt from entries alone."""

    def __init__(self, table: MakeTable = in_memory) -> None:
        self.pools: Rows[Key, Pool] = table(Pool, 2)
        self.holds: Rows[Key, StoredHold] = table(StoredHold, 2)
        self.records: Rows[RecordKey, Record] = table(Record, 3)
        self.tallies: Rows[TallyKey, Tally] = table(Tally, 3)
        self.legs: Rows[LegKey, OpenLeg] = table(OpenLeg, 4)
        """What is outstanding: filed by `audit`, once all is folded."""
        self.consumed: Rows[Key, int] = table(int, 2)
        """What holds account for of each pool's consumption, and what is loose: filed with them."""
        self.used: Rows[TallyKey, int] = table(int, 3)
        """What an account's holds account for of its tallies, and what is loose: filed with them."""
        self.children: Rows[Key, int] = table(int, 2)
        """How many pools are directly below each."""
        self.floors: Rows[TenantKey, int] = table(int, 1)
        """The highest fence of each tenant's removed pools."""
        self.put_pool, self.get_hold, self.put_record = self.pools.put, self.holds.get, self.records.put
        self.put_tally = self.tallies.put
        self.last_seq = 0
        self.latest: Slot = 0
        """The last slot that `audit` saw: rows are pruned by the clock of those who wrote."""

    def put_hold(self, hold: StoredHold) -> None:
        """Put a hold."""
        self.holds.put((hold.tenant, hold.id), hold)

    def drop_hold(self, key: Key) -> None:
        """Remove a hold."""
        self.holds.put(key, None)

    def raise_floor(self, tenant: str, fence: int) -> None:
        """Keep the highest fence of the tenant's removed pools."""
        if fence > (self.floors.get((tenant,)) or 0):
            self.floors.put((tenant,), fence)

    def file_units(self, hold: StoredHold) -> None:
        """Store a hold's consumed units on pools that still exist, not on a later pool with the same id; and all units that count for its
        account in the account's tallies."""
        for leg in hold.legs:
            for name in path_of(leg.pool) if leg.consumed else ():
                pool = self.pools.get((hold.tenant, name))
                if pool is not None and pool.floor < hold.fence:
                    _add(self.consumed, (hold.tenant, name), leg.consumed)
                    self._file_used((hold.tenant, name), hold.account, leg.consumed)
        for name, rest in hold.open_legs() if hold.account is not None else ():
            self._file_used((hold.tenant, name), hold.account, rest.units + rest.waiting)

    def file_pool(self, pool: Pool) -> None:
        """Store the pool's own loose units, also for the pools above it, and count it as a child of its parent."""
        above = path_of(pool.id)[1:]
        if above:
            _add(self.children, (pool.tenant, above[0]), 1)
        for name in (pool.id, *above) if pool.loose else ():
            _add(self.consumed, (pool.tenant, name), pool.loose)

    def file_tally(self, key: TallyKey, tally: Tally) -> None:
        """Store the tally's own loose units, also for the pools above its own."""
        for name in path_of(key[1]) if tally.loose else ():
            _add(self.consumed, (key[0], name), tally.loose)
            _add(self.used, (key[0], name, tally.account), tally.loose)

    def _file_used(self, pool: Key, account: str | None, units: int) -> None:
        name = tallied(pool[1], account)
        if name is not None:
            _add(self.used, (*pool, name), units)


def _add(table: Rows[K, int], key: K, more: int) -> None:
    table.put(key, (table.get(key) or 0) + more)


class StoredRows(Protocol):
    """The rows that an engine has stored, each table in key order, readable any number of times."""

    def each_floor(self) -> Iterator[Found[TenantKey, int]]:
        """Yield every tenant's fence floor."""
        ...

    def each_pool(self) -> Iterator[Found[Key, Pool]]:
        """Yield every pool."""
        ...

    def each_hold(self) -> Iterator[Found[Key, StoredHold]]:
        """Yield every hold."""
        ...

    def each_record(self) -> Iterator[Found[RecordKey, Record]]:
        """Yield every record."""
        ...

    def each_leg(self) -> Iterator[Found[LegKey, OpenLeg]]:
        """Yield the outstanding units of every leg."""
        ...

    def each_tally(self) -> Iterator[Found[TallyKey, Tally]]:
        """Yield every tally."""
        ...


class Stored(Struct, frozen=True):
    """Stored rows that are all in memory."""

    pools: Mapping[Key, Pool]
    holds: Mapping[Key, StoredHold]
    records: Mapping[RecordKey, Record]
    legs: Mapping[LegKey, OpenLeg]
    fence_floors: Mapping[str, int]
    tallies: Mapping[TallyKey, Tally] = {}

    def each_floor(self) -> Iterator[Found[TenantKey, int]]:
        """Yield every tenant's fence floor."""
        return (((tenant,), self.fence_floors[tenant], ()) for tenant in sorted(self.fence_floors))

    def each_pool(self) -> Iterator[Found[Key, Pool]]:
        """Yield every pool."""
        return _in_order(self.pools)

    def each_hold(self) -> Iterator[Found[Key, StoredHold]]:
        """Yield every hold."""
        return _in_order(self.holds)

    def each_record(self) -> Iterator[Found[RecordKey, Record]]:
        """Yield every record."""
        return _in_order(self.records)

    def each_leg(self) -> Iterator[Found[LegKey, OpenLeg]]:
        """Yield the outstanding units of every leg."""
        return _in_order(self.legs)

    def each_tally(self) -> Iterator[Found[TallyKey, Tally]]:
        """Yield every tally."""
        return _in_order(self.tallies)


def _in_order(rows: Mapping[Any, V]) -> Iterator[Found[Any, V]]:
    return ((key, rows[key], ()) for key in sorted(rows))


class Mismatches:
    """The rows that differ, each as stored and as the journal has it."""

    def __init__(self) -> None:
        self.pools: dict[Key, tuple[Pool | None, Pool | None]] = {}
        self.holds: dict[Key, tuple[StoredHold | None, StoredHold | None]] = {}
        self.records: dict[RecordKey, tuple[Record | None, Record | None]] = {}
        self.legs: dict[LegKey, tuple[OpenLeg | None, OpenLeg | None]] = {}
        self.tallies: dict[TallyKey, tuple[Tally | None, Tally | None]] = {}
        self.floors: dict[TenantKey, tuple[int | None, int | None]] = {}
