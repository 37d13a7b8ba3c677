"""Audit: folding the journal must rebuild exactly the stored rows. Names every difference; changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct, structs

from ..errors import PromiseBroken, plain
from .entries import Action, Entry
from .fold import fold
from .ladders.finding import prunable
from .model import Key, Limits, Pool, Record, RecordKey, Slot, State, StoredHold
from .view import Table, View

Row = TypeVar("Row", bound=Struct)


class Difference(Struct, frozen=True):
    """One place where what is stored is not what the journal says."""

    table: str
    key: str
    field: str
    stored: str
    expected: str

    def __str__(self) -> str:
        return f"{self.table} {self.key}: {self.field} is {self.stored}, the journal says {self.expected}"


def row_name(key: tuple[str, ...]) -> str:
    """How a row is called, for people, and so that no two of a table are called the same: tenant and name make a pool."""
    *above, last = key
    if not above[0] and "/" not in last:
        del above[0]
    return "/".join([*(part.replace("%", "%25").replace("/", "%2F") for part in above), last])


def leg_name(tenant: str, pool: str, hold: str) -> str:
    """How a leg is called."""
    return f"{row_name((tenant, pool))} of hold {hold}"


class Folded:
    """A state rebuilt from entries alone."""

    def __init__(self) -> None:
        self.pools: Table[Key, Pool] = Table({})
        self.holds: Table[Key, StoredHold] = Table({})
        self.records: Table[RecordKey, Record] = Table({})
        self.put_pool, self.get_hold, self.put_record = self.pools.put, self.holds.get, self.records.put
        self.fence_floor = 0

    def put_hold(self, hold: StoredHold) -> None:
        """Put a hold."""
        self.holds.put(hold.key, hold)


class Stored(Struct, frozen=True):
    """What an engine has stored, for comparison; `legs` are (tenant, pool, deadline, hold) → outstanding units."""

    pools: Mapping[Key, Pool]
    holds: Mapping[Key, StoredHold]
    records: Mapping[RecordKey, Record]
    legs: Mapping[tuple[str, str, int | None, str], int]
    fence_floor: int


def audit(
    entries: Iterable[Entry], stored: Stored, limits: Limits, now: Slot, folded: Folded | None = None
) -> Iterator[Difference]:
    """Fold the entries and compare, table by table. Who wants to see what they came to gives an empty `folded`."""
    folded = Folded() if folded is None else folded
    expected_seq: int | None = None
    for entry in entries:
        if expected_seq is not None and entry.seq != expected_seq:
            yield Difference("journal", str(entry.seq), "seq", str(entry.seq), str(expected_seq))
        expected_seq = entry.seq + 1
        yield from counters_agree(folded, entry)
        try:
            fold(folded, entry)
        except PromiseBroken as broken:
            yield Difference("journal", str(entry.seq), "subject", entry.subject, plain(broken))
    if folded.fence_floor != stored.fence_floor:
        yield Difference("settings", "fence_floor", "value", str(stored.fence_floor), str(folded.fence_floor))
    yield from _compare("pools", stored.pools, _present(folded.pools))
    holds = {key: hold for key, hold in _present(folded.holds).items() if not prunable(hold, limits.retention, now)}
    kept = {
        key: hold for key, hold in stored.holds.items() if key in holds or not prunable(hold, limits.retention, now)
    }
    if limits.max_holds is not None:  # ended holds leave early where the table is bounded
        holds = {key: hold for key, hold in holds.items() if key in kept or hold.state is State.HELD}
    yield from _compare("holds", kept, holds)
    yield from _compare("records", stored.records, _present(folded.records))
    yield from _compare_legs(stored, _present(folded.holds))


def counters_agree(folded: Folded | View, entry: Entry) -> Iterator[Difference]:
    """Each effect must start from where the pool stood: that catches an entry that was changed or lost."""
    if entry.action in (Action.JOURNAL_BASELINE, Action.POOL_REPAIRED):
        return
    for effect in entry.effects:
        before = folded.pools.get(effect.pool.key)
        for field in ("total", "held", "consumed"):
            was = 0 if before is None else getattr(before, field)
            says = getattr(effect.pool, field) - getattr(effect, field)
            if was != says:
                where = f"{entry.seq} ({row_name(effect.pool.key)})"
                yield Difference("journal", where, f"{field} before", str(says), str(was))


def _present(table: Table[Any, Row]) -> dict[Any, Row]:
    return {key: row for key, row in table.changed.items() if row is not None}


def _compare(table: str, stored: Mapping[Any, Row], expected: Mapping[Any, Row]) -> Iterator[Difference]:
    for key in sorted({*stored, *expected}):
        name = row_name(key)
        mine, theirs = stored.get(key), expected.get(key)
        if mine is None or theirs is None:
            yield Difference(table, name, "row", "missing" if mine is None else "there",
                             "there" if mine is None else "missing")  # fmt: skip
            continue
        if mine == theirs:
            continue
        for field, value in structs.asdict(mine).items():
            if value != getattr(theirs, field):
                yield Difference(table, name, field, repr(value), repr(getattr(theirs, field)))


def _compare_legs(stored: Stored, holds: Mapping[Key, StoredHold]) -> Iterator[Difference]:
    """Outstanding legs must be those of the folded holds, and each pool's `held` their sum."""
    expected = outstanding(holds.values())
    for key in sorted({*stored.legs, *expected}, key=repr):
        mine, theirs = stored.legs.get(key, 0), expected.get(key, 0)
        if mine != theirs:
            yield Difference("legs", leg_name(key[0], key[1], key[3]), "units", str(mine), str(theirs))
    sums: dict[Key, int] = {}
    for (tenant, pool, _, _), units in stored.legs.items():
        sums[tenant, pool] = sums.get((tenant, pool), 0) + units
    for pool_key, row in sorted(stored.pools.items()):
        if row.held != sums.get(pool_key, 0):
            total = sums.get(pool_key, 0)
            yield Difference("pools", row_name(pool_key), "held", str(row.held), f"{total} (sum of its legs)")


def outstanding(holds: Iterable[StoredHold]) -> dict[tuple[str, str, int | None, str], int]:
    """The legs that still hold units."""
    return {
        (hold.tenant, leg.pool, hold.deadline, hold.id): leg.held for hold in holds for leg in hold.legs if leg.held
    }
