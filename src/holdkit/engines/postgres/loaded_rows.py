"""The rows of one batch while they are loaded: those that have come so far, and those that another transaction has locked.

`LoadPlan` has the statements of the first round trip, and `LoadedRows` turns their answers into pools, holds and operations; `loading`
sends them. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from msgspec import Struct

from ...core.bounds import Limits
from ...core.codec import decode_outcome
from ...core.entries import Entry
from ...core.fold import reconstruct
from ...core.hold_columns import hold_of
from ...core.ladders.finding import prunable
from ...core.lanes import lane_of_pool
from ...core.line_loading import ToLoad
from ...core.model import Key, Pool, Record, RecordKey, Slot, StoredHold
from ...core.outcomes import Done, Operation
from ...core.outstanding import Tally, TallyKey
from ...core.reading import entry_of
from ...core.view import NO_FLOORS, DueLeg
from ...errors import EngineError
from .compact_entries import journal_row
from .database import BatchOptions
from .driver import Row, Statement
from .rows import (
    POOL_COLUMNS,
    OperationRow,
    columns,
    hold_keys,
    operation_keys,
    operation_of,
    pool_keys,
    pool_of,
    record_keys,
    record_of,
    tally_keys,
    tally_of,
)


class LoadPlan(Struct, frozen=True, kw_only=True):
    """The rows that the first round trip locks and reads. All keys are sorted: rows are locked in one order."""

    pools: list[Key]
    standing: list[Key]
    """Holds whose pools are locked too."""
    holds: list[Key]
    operations: list[Key]
    records: list[RecordKey]
    tallies: list[TallyKey]
    created: list[Key]
    """Pools that may be created: the fence floors of their tenants are read."""
    lines: dict[Key, ToLoad]
    """Lines whose front is loaded in advance, by statements behind these."""

    def statements(self, options: BatchOptions) -> list[Statement]:
        """Return the statements. Rows that are read under a lock need a later snapshot than the lock's, so each is a statement of its own.
        `LoadedRows.load_first_round` takes their answers in the same order."""
        lanes, waiting = options.lanes, "_waiting" if options.wait_for_locks else ""
        pools, of_holds = pool_keys(self.pools, lanes), hold_keys(self.holds, lanes) if self.holds else []
        clock = (options.slot, options.limits.max_due + 1)
        statements: list[Statement] = []
        if self.records:
            statements.append((f"lock_records{waiting}", record_keys(self.records, lanes)))
        if self.standing:
            of_standing = of_holds if self.standing == self.holds else hold_keys(self.standing, lanes)
            statements.append((f"lock_pools_of_holds{waiting}", (*pools, *of_standing)))
            statements.append(("load_due_of_holds", (*pools, *clock, *of_standing)))
        else:
            statements.append((f"lock_pools{waiting}", pools))
            statements.append(("load_due", (*pools, *clock)))
        if self.holds:
            statements.append(("load_holds", of_holds))
        if self.operations:
            statements.append(("load_operations", operation_keys(self.operations, lanes)))
        if self.tallies:
            statements.append(("load_tallies", tally_keys(self.tallies, lanes)))
        if self.created:
            homes = sorted({(lane_of_pool((tenant, pool), lanes), tenant) for tenant, pool in self.created})
            statements.append(("load_floors", columns(homes, 2)))
        return statements


class FirstRound(Struct, frozen=True, kw_only=True):
    """What the first round trip says about the batch as a whole."""

    earliest: Slot
    latest: Slot
    """Differs from `earliest` only if each lane was asked separately."""
    fence_floors: Mapping[str, int]
    """The highest of each tenant."""
    has_unnumbered_entries: bool
    """Whether entries of callers' transactions wait for their journal numbers, in any lane."""
    limits_version: int
    commit_waits_for_standby: bool
    due: dict[Key, list[DueLeg]]
    """Due legs of locked pools."""


class DueRow(NamedTuple):
    """A row of `load_due`: the clock and the settings of each lane that was read, and a due leg if there is one."""

    slot: Slot
    has_unnumbered_entries: bool
    tenant: str | None
    pool: str
    deadline: Slot
    hold: str
    limits_version: int | None
    commit_waits_for_standby: bool


class LoadedRows(Struct):
    """The rows loaded so far."""

    pools: dict[Key, Pool] = {}
    stamps: dict[Key, int] = {}
    holds: dict[Key, StoredHold] = {}
    operations: dict[Key, Operation] = {}
    records: dict[RecordKey, Record] = {}
    tallies: dict[TallyKey, Tally] = {}
    references: list[OperationRow] = []
    """Operations whose answers must be put together from the journal."""

    def load_first_round(self, plan: LoadPlan, answers: Iterator[list[Row]]) -> FirstRound:
        """Store the rows of the first round trip and return what it says about the batch.

        `answers` come in the order of `plan.statements()`; a statement that the plan left out has no answer.
        """
        if plan.records:
            for record in map(record_of, next(answers)):
                self.records[record.key] = record
        for row in next(answers):
            pool = pool_of(row)
            self.pools[pool.tenant, pool.id], self.stamps[pool.tenant, pool.id] = pool, row[POOL_COLUMNS]
        clocks = [DueRow(*row) for row in next(answers)]
        if plan.holds:
            for hold in map(hold_of, next(answers)):
                self.holds[hold.tenant, hold.id] = hold
        if plan.operations:
            self._load_operations(next(answers))
        if plan.tallies:
            self.load_tallies([next(answers)])
        slots = {row.slot for row in clocks}
        return FirstRound(
            earliest=min(slots),
            latest=max(slots),
            fence_floors=_highest(next(answers)) if plan.created else NO_FLOORS,
            has_unnumbered_entries=any(row.has_unnumbered_entries for row in clocks),
            limits_version=max(row.limits_version or 0 for row in clocks),
            commit_waits_for_standby=any(row.commit_waits_for_standby for row in clocks),
            due=self._due_legs(clocks),
        )

    def _due_legs(self, rows: Iterable[DueRow]) -> dict[Key, list[DueLeg]]:
        due: dict[Key, list[DueLeg]] = {}
        for row in rows:
            if row.tenant is not None and (row.tenant, row.pool) in self.pools:
                due.setdefault((row.tenant, row.pool), []).append((row.deadline, row.hold))
        for legs in due.values():
            legs.sort()
        return due

    def _load_operations(self, rows: Iterable[Row]) -> None:
        for row in map(OperationRow._make, rows):
            if row.outcome is None:
                self.references.append(row)
            else:
                self.operations[row.tenant, row.id] = operation_of(row, decode_outcome(row.outcome))

    def load_answers(self, rows: Iterable[Row], slot: Slot) -> None:
        """Store the operations behind the references, by the entries of their holds. A row has the number of a reference, then an entry in
        the form that `journal_row` takes."""
        histories: dict[int, list[Entry]] = {}
        for number, *entry in rows:
            histories.setdefault(number, []).append(entry_of(journal_row(tuple(entry))))
        for number, row in enumerate(self.references):
            outcome = answer_of(row, histories.get(number, []))
            if outcome is None and slot < row.until:
                raise EngineError(
                    f"operation {row.id!r} refers to an entry of hold {row.hold} that is not in the journal: "
                    "run `holdkit admin verify`"
                )
            self.operations[row.tenant, row.id] = operation_of(
                row, outcome or Done(row.slot)
            )  # its window is over: never read

    @property
    def has_lines(self) -> bool:
        """Whether a hold waits at any loaded pool."""
        return any(pool.waiting for pool in self.pools.values())

    @property
    def has_accounts(self) -> bool:
        """Whether a hold has an account."""
        return any(hold.account is not None for hold in self.holds.values())

    def load_tallies(self, answers: Iterable[list[Row]]) -> None:
        """Store the units that accounts use."""
        for rows in answers:
            self.tallies.update(map(tally_of, rows))

    def load_locked(self, keys: Iterable[Key], rows: Iterable[Row]) -> set[Key]:
        """Store the holds that were locked, and return the keys that another transaction has locked."""
        missed = set(keys)
        for hold in map(hold_of, rows):
            key = (hold.tenant, hold.id)
            if key in missed:
                missed.remove(key)
                self.holds[key] = hold
        return missed

    def pools_of(self, keys: Iterable[Key], limits: Limits, slot: Slot) -> set[Key]:
        """Return the pools of these holds; a hold that may be pruned touches none, as in the core's own `touched`."""
        holds = [hold for key in keys if (hold := self.holds.get(key)) is not None]
        return {(hold.tenant, name) for hold in holds if not prunable(hold, limits, slot) for name in hold.pools}

    def drop_pools(self, locked: Iterable[Key | RecordKey]) -> None:
        """Forget pools whose holds another transaction has locked: they count as locked themselves."""
        for key in locked:
            self.pools.pop(key, None)  # type: ignore[arg-type]  # a record's key is never among the pools'


def answer_of(row: OperationRow, history: list[Entry]) -> Done | None:
    """Return the answer of an operation that refers to its entry, by the entries of its hold; None if the entry is not among them."""
    last = max((n for n, entry in enumerate(history, 1) if (entry.op, entry.slot) == (row.id, row.slot)), default=0)
    hold = reconstruct(history[:last])
    return None if hold is None else Done(row.slot, hold, token=row.token)


def _highest(rows: Iterable[Row]) -> Mapping[str, int]:
    """Return the highest fence floor of each tenant."""
    floors: dict[str, int] = {}
    for tenant, floor in rows:
        floors[tenant] = max(floor, floors.get(tenant, 0))
    return floors or NO_FLOORS
