"""The rows of one batch while they are loaded: which have come so far, and which of them another transaction has locked.

`loading` sends the statements; here their answers become pools, holds and the rest. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from ...core.bounds import Limits
from ...core.ladders.finding import prunable
from ...core.model import Key, Pool, Record, RecordKey, Slot, StoredHold
from ...core.outcomes import Operation
from ...core.outstanding import Tally, TallyKey
from ...core.view import NO_FLOORS, DueLeg
from .driver import Row
from .rows import hold_of, operation_of, pool_of, record_of, tally_of

_decode_floors: Final = msgspec.json.Decoder(dict[str, int]).decode


class LoadedRows(Struct):
    """The rows loaded so far."""

    pools: dict[Key, Pool]
    stamps: dict[Key, int]
    holds: dict[Key, StoredHold]
    operations: dict[Key, Operation]
    records: dict[RecordKey, Record]
    tallies: dict[TallyKey, Tally]

    def take(
        self, answers: list[list[Row]], records: bool, holds: bool, operations: bool, tallies: bool
    ) -> tuple[tuple[Slot, Slot], Mapping[str, int], bool, int, bool, dict[Key, list[DueLeg]]]:
        """Take in the answers of the first round trip. Gives the slot (where lanes were asked one by one: the first and the last),
        the fence floors by tenant, whether entries wait for their numbers, the version of the limits, whether COMMIT waits for standbys, and
        what is due on locked pools."""
        rest = iter(answers)
        if records:
            for row in next(rest):
                self.records[row[0], row[1], row[2]] = record_of(row)
        for row in next(rest):
            key = (row[0], row[1])
            self.pools[key], self.stamps[key] = pool_of(row), row[21]
        found = next(rest)
        due: dict[Key, list[DueLeg]] = {}
        for row in found:
            if row[3] is not None and (row[3], row[4]) in self.pools:
                due.setdefault((row[3], row[4]), []).append((row[5], row[6]))
        for legs in due.values():
            legs.sort()
        if holds:
            for row in next(rest):
                self.holds[row[0], row[1]] = hold_of(row)
        if operations:
            for row in next(rest):
                self.operations[row[0], row[1]] = operation_of(row)
        if tallies:
            self.take_tallies([next(rest)])
        slots, floors, waiting, versions, synchronous = zip(*{(*row[:3], *row[7:]) for row in found}, strict=True)
        version = max(one or 0 for one in versions)
        return (min(slots), max(slots)), _highest(floors), any(waiting), version, any(synchronous), due

    @property
    def has_lines(self) -> bool:
        """Whether anybody waits at a pool."""
        return any(pool.waiting for pool in self.pools.values())

    @property
    def has_accounts(self) -> bool:
        """Whether a hold has an account."""
        return any(hold.account is not None for hold in self.holds.values())

    def take_tallies(self, answers: Iterable[list[Row]]) -> None:
        """Take in what accounts use."""
        for rows in answers:
            self.tallies.update(map(tally_of, rows))

    def take_locked(self, keys: Iterable[Key], found: Sequence[Row]) -> set[Key]:
        """Take in holds that were to be locked; gives those that another transaction has locked."""
        locked = {(row[0], row[1]): hold_of(row) for row in found}
        self.holds.update(locked)
        return set(keys) - locked.keys()

    def pools_of(self, keys: Iterable[Key], limits: Limits, slot: Slot) -> set[Key]:
        """The pools of these holds; a hold that may be pruned touches none, as in the core's own `touched`."""
        holds = [hold for key in keys if (hold := self.holds.get(key)) is not None]
        return {(hold.tenant, name) for hold in holds if not prunable(hold, limits, slot) for name in hold.pools}

    def drop_pools(self, locked: Iterable[Key | RecordKey]) -> None:
        """Forget pools whose holds another transaction has locked: they count as locked themselves."""
        for key in locked:
            self.pools.pop(key, None)  # type: ignore[arg-type]  # a record's key is never among the pools'


def _highest(found: Iterable[str | None]) -> Mapping[str, int]:
    """The highest fence floor of each tenant, of those that were found."""
    floors: dict[str, int] = {}
    for text in found:
        if text is not None:
            its = _decode_floors(text)
            floors.update({tenant: max(floor, floors.get(tenant, 0)) for tenant, floor in its.items()})
    return floors or NO_FLOORS
