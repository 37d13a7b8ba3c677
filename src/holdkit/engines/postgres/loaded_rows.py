"""The rows of one batch while they are loaded: which have come so far, and which of them another transaction has locked.

`loading` sends the statements; here their answers become pools, holds and the rest. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ...core.bounds import Limits
from ...core.codec import decode_outcome
from ...core.entries import Entry
from ...core.fold import reconstruct
from ...core.hold_columns import hold_of
from ...core.ladders.finding import prunable
from ...core.model import Key, Pool, Record, RecordKey, Slot, StoredHold
from ...core.outcomes import Done, Operation
from ...core.outstanding import Tally, TallyKey
from ...core.reading import entry_of
from ...core.view import NO_FLOORS, DueLeg
from ...errors import EngineError
from .compact_entries import journal_row
from .driver import Row
from .rows import operation_of, pool_of, record_of, tally_of


class LoadedRows(Struct):
    """The rows loaded so far."""

    pools: dict[Key, Pool]
    stamps: dict[Key, int]
    holds: dict[Key, StoredHold]
    operations: dict[Key, Operation]
    records: dict[RecordKey, Record]
    tallies: dict[TallyKey, Tally]
    references: list[Row] = []
    """Operations whose answers must be put together from the journal."""

    def take(
        self, answers: list[list[Row]], records: bool, holds: bool, operations: bool, tallies: bool, created: bool
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
        due = self._due(found) if found[0][2] is not None or len(found) > 1 else {}
        if holds:
            for row in next(rest):
                self.holds[row[0], row[1]] = hold_of(row)
        if operations:
            self._take_operations(next(rest))
        if tallies:
            self.take_tallies([next(rest)])
        slots, floors = {row[0] for row in found}, _highest(next(rest)) if created else NO_FLOORS
        unnumbered, synchronous = any(row[1] for row in found), any(row[7] for row in found)
        return (min(slots), max(slots)), floors, unnumbered, max(row[6] or 0 for row in found), synchronous, due

    def _due(self, found: Iterable[Row]) -> dict[Key, list[DueLeg]]:
        due: dict[Key, list[DueLeg]] = {}
        for row in found:
            if row[2] is not None and (row[2], row[3]) in self.pools:
                due.setdefault((row[2], row[3]), []).append((row[4], row[5]))
        for legs in due.values():
            legs.sort()
        return due

    def _take_operations(self, found: Iterable[Row]) -> None:
        for row in found:
            if row[4] is None:
                self.references.append(row)
            else:
                self.operations[row[0], row[1]] = operation_of(row, decode_outcome(row[4]))

    def take_answers(self, found: Sequence[Row], slot: Slot) -> None:
        """Take in the entries behind the references: number of the reference, and a row as `journal_row` takes it."""
        histories: dict[int, list[Entry]] = {}
        for row in found:
            histories.setdefault(row[0], []).append(entry_of(journal_row(row[1:])))
        for n, row in enumerate(self.references):
            outcome = answer_of(row, histories.get(n, []))
            if outcome is None and slot < row[3]:
                raise EngineError(
                    f"operation {row[1]!r} refers to an entry of hold {row[6]} that is not in the journal: "
                    "run `holdkit admin verify`"
                )
            self.operations[row[0], row[1]] = operation_of(
                row, outcome or Done(row[5])
            )  # its window is over: never read

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
        """Take in those of these holds that were found and locked; gives those that another transaction has locked."""
        missed = set(keys)
        for row in found:
            key = (row[0], row[1])
            if key in missed:
                missed.remove(key)
                self.holds[key] = hold_of(row)
        return missed

    def pools_of(self, keys: Iterable[Key], limits: Limits, slot: Slot) -> set[Key]:
        """The pools of these holds; a hold that may be pruned touches none, as in the core's own `touched`."""
        holds = [hold for key in keys if (hold := self.holds.get(key)) is not None]
        return {(hold.tenant, name) for hold in holds if not prunable(hold, limits, slot) for name in hold.pools}

    def drop_pools(self, locked: Iterable[Key | RecordKey]) -> None:
        """Forget pools whose holds another transaction has locked: they count as locked themselves."""
        for key in locked:
            self.pools.pop(key, None)  # type: ignore[arg-type]  # a record's key is never among the pools'


def answer_of(row: Row, history: list[Entry]) -> Done | None:
    """The answer of an operation that refers to its entry, given the entries of its hold; None if the entry is not among them."""
    _, op, _, _, _, slot, _, token = row
    last = max((n for n, entry in enumerate(history, 1) if (entry.op, entry.slot) == (op, slot)), default=0)
    hold = reconstruct(history[:last])
    return None if hold is None else Done(slot, hold, token=token)


def _highest(found: Iterable[Row]) -> Mapping[str, int]:
    """The highest fence floor of each tenant, of those that were found."""
    floors: dict[str, int] = {}
    for tenant, floor in found:
        floors[tenant] = max(floor, floors.get(tenant, 0))
    return floors or NO_FLOORS
