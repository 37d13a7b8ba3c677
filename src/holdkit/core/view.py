"""The view of a batch: the loaded state, and an overlay of its changes.

Engines fill `base` (pools, holds, operations and records by key, due legs by pool), the core reads and writes through the
overlay, and the engine then writes back `changed` and `entries`, or drops the whole view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from .bounds import Limits
from .entries import Entry
from .erased_names import ErasedNames
from .model import WAITING, HeldLeg, Key, Pool, Record, RecordKey, Slot, StoredHold
from .outcomes import Operation
from .outstanding import Tally, TallyKey

K = TypeVar("K")
V = TypeVar("V")

_UNCHANGED: Final[Any] = object()  # one lookup instead of two: None in `changed` means removed
NO_FLOORS: Final[Mapping[str, int]] = MappingProxyType({})
"""For a batch that needs no fence floors, or raises none."""

DueLeg: TypeAlias = tuple[Slot, str]
"""(deadline, hold id): the order in which due legs return."""
Place: TypeAlias = tuple[int, str]
"""(number, hold id): a place in a line."""


class Table(Generic[K, V]):
    """One table of the view: `base` as loaded, overlaid by `changed`; None in `changed` means removed."""

    __slots__ = ("base", "changed", "undo")

    def __init__(self, base: Mapping[K, V]) -> None:
        self.base = base
        self.changed: dict[K, V | None] = {}
        self.undo: dict[K, tuple[bool, V | None]] | None = None

    def get(self, key: K) -> V | None:
        """Return the row as the batch sees it now."""
        row = self.changed.get(key, _UNCHANGED)
        return self.base.get(key) if row is _UNCHANGED else row

    def put(self, key: K, row: V | None) -> None:
        """Change or (with None) remove a row."""
        if self.undo is not None and key not in self.undo:
            self.undo[key] = (key in self.changed, self.changed.get(key))
        self.changed[key] = row

    def roll_back(self) -> None:
        """Undo every change since `undo` was opened."""
        for key, (was_changed, row) in (self.undo or {}).items():
            if was_changed:
                self.changed[key] = row
            else:
                del self.changed[key]
        self.undo = None


class Counts(Struct, frozen=True, gc=False):
    """The numbers of rows in bounded tables before the batch; loaded only if a bound is set."""

    pools: int = 0
    live_holds: int = 0
    operations: int = 0


class FrontOfLine(Struct, frozen=True, gc=False):
    """The holds that wait in front of a pool's line."""

    holds: list[str]
    """Ids, in order of number, of the holds that ask for no more than `ToLoad.most`; the holds are loaded too."""
    more: bool = False
    """Others wait behind them."""


NOBODY: Final = FrontOfLine([])

LoadLine: TypeAlias = Callable[[Key], FrontOfLine]
"""Gives the front of a pool's line, as `holdkit.core.line_loading` asks for it."""


class Loaded(Struct, frozen=True, gc=False):
    """The rows that an engine loads for one batch."""

    slot: Slot
    next_seq: int
    pools: Mapping[Key, Pool]
    holds: Mapping[Key, StoredHold]
    operations: Mapping[Key, Operation]
    records: Mapping[RecordKey, Record]
    due: Callable[[Key], list[DueLeg]]
    """The due legs of a pool up to `horizon`, earliest first."""
    horizon: Slot
    """The latest slot at which any command of this batch can be decided."""
    limits: Limits
    fence_floors: Mapping[str, int] = NO_FLOORS
    """The highest fence of any pool of a tenant that was removed, by tenant. Only of tenants that this batch may create pools for,
    and that have removed pools."""
    counts: Counts = Counts()
    tallies: Mapping[TallyKey, Tally] = {}
    line: LoadLine | None = None
    """None: no hold waits at any loaded pool."""
    may_offer: bool = True
    """Whether this transaction makes offers. A caller's own does not: an offer could end before that commits."""
    names: ErasedNames | None = None
    """What recognises erased names; None: there are none."""


class View:
    """The state on which a batch is decided. Created for one batch, then written back or dropped."""

    __slots__ = ("_candidates", "_fresh", "_lines", "_mark", "_taken", "atomic", "entries", "get_hold", "grown", "has_lines", "holds",
                 "limits", "loaded", "numbers", "offers", "operations", "pools", "put_off", "put_pool", "put_record", "put_tally",
                 "raised_floors", "recheck", "records", "same_legs", "tallies", "touched", "unfed", "written")  # fmt: skip

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.limits = loaded.limits
        self.pools: Table[Key, Pool] = Table(loaded.pools)
        self.holds: Table[Key, StoredHold] = Table(loaded.holds)
        self.operations: Table[Key, Operation] = Table(loaded.operations)
        self.records: Table[RecordKey, Record] = Table(loaded.records)
        self.tallies: Table[TallyKey, Tally] = Table(loaded.tallies)
        self.put_pool, self.get_hold, self.put_record = self.pools.put, self.holds.get, self.records.put
        self.put_tally = self.tallies.put
        self.entries: list[Entry] = []
        self.written = 0
        """The number of the entry that the last decision wrote itself, or of the one that a recorded answer tells of; 0: none."""
        self.numbers: list[int] = []
        """`written` of every command that was answered, in order: where in the journal each answer stands."""
        self.touched = 0
        """Legs that the commands decided so far have touched."""
        self.put_off: set[str] = set()
        """Tenants with a group that was left for the next transaction, because this one has touched as many legs as it may."""
        self.raised_floors: Mapping[str, int] = NO_FLOORS
        """The highest fence of the pools that this batch has removed, by tenant. Replaced, never changed: a mark keeps the old one."""
        self.has_lines = loaded.line is not None
        """Whether anybody may wait at a pool of this batch."""
        self.offers: dict[str, int] = {}
        """Offers made so far, by tenant."""
        self.unfed: set[Key] = set()
        """Pools with units left to offer, because this transaction has made as many offers as it may."""
        self.grown = [0, 0, 0]  # pools, live holds, operations added by this batch
        self._candidates: dict[Key, list[DueLeg]] = {}  # loaded candidates that no command has reached yet
        self._fresh: dict[Key, list[DueLeg]] = {}  # candidates that this batch created itself
        self._taken: list[tuple[Key, list[DueLeg]]] = []  # given out since the mark
        self._lines: dict[
            Key, tuple[list[Place], bool]
        ] = {}  # those in front, in order, and whether others wait behind
        self.recheck = False  # the current group was checked under other limits than these
        self.same_legs: tuple[HeldLeg, ...] = ()
        """The legs of the last hold that the plain way has placed: the next one mostly has the same, and shares them."""
        self.atomic = False
        """Whether a group is being decided that may yet be rolled back."""
        self._mark: tuple[int, int, Mapping[str, int], list[int], Limits] | None = None

    @property
    def next_seq(self) -> int:
        """The journal number the next entry will have."""
        return self.loaded.next_seq + len(self.entries)

    def put_hold(self, hold: StoredHold) -> None:
        """Change a hold; if it may become due within this batch, it becomes a candidate for return."""
        if hold.state is WAITING:
            self._join(hold)
        self.holds.put((hold.tenant, hold.id), hold)
        if hold.deadline is not None and hold.deadline <= self.loaded.horizon:
            for pool, _ in hold.open_legs():
                self._fresh.setdefault((hold.tenant, pool), []).append((hold.deadline, hold.id))

    def _join(self, hold: StoredHold) -> None:
        """Place a hold that begins to wait behind all others of its line. One that waits already keeps its place."""
        self.has_lines = True
        before = self.holds.get(hold.key)
        if before is None or before.state is not WAITING:
            front, more = self._front((hold.tenant, hold.legs[0].pool))
            if not more:  # otherwise those between are not loaded
                front.append((hold.number or 0, hold.id))

    def _front(self, pool: Key) -> tuple[list[Place], bool]:
        front = self._lines.get(pool)
        if front is None:
            loaded = NOBODY if self.loaded.line is None else self.loaded.line(pool)
            numbers = [self.holds.base[pool[0], hold_id].number or 0 for hold_id in loaded.holds]
            front = self._lines[pool] = (list(zip(numbers, loaded.holds, strict=True)), loaded.more)
        return front

    def waiters(self, pool: Key) -> Iterator[StoredHold]:
        """Yield the holds that wait in front of a pool's line, in order."""
        front, _ = self._front(pool)
        if self._mark is None:  # otherwise a roll-back could bring them back
            gone = 0
            while gone < len(front) and self._waiter(pool, front[gone]) is None:
                gone += 1
            del front[:gone]
        for place in front:
            hold = self._waiter(pool, place)
            if hold is not None:
                yield hold

    def _waiter(self, pool: Key, place: Place) -> StoredHold | None:
        """Return the hold that waits at a place; None if it has left, even if another hold of this id waits in this line or another."""
        hold = self.holds.get((pool[0], place[1]))
        waits = hold is not None and hold.state is WAITING and hold.legs[0].pool == pool[1] and hold.number == place[0]
        return hold if waits else None

    def more_wait(self, pool: Key) -> bool:
        """Return whether more holds wait behind those that `waiters` gives."""
        return self._front(pool)[1]

    def drop_hold(self, key: Key) -> None:
        """Remove a hold."""
        self.holds.put(key, None)

    def fence_floor(self, tenant: str) -> int:
        """Return the fence above which those of a new pool of this tenant begin."""
        return max(self.loaded.fence_floors.get(tenant, 0), self.raised_floors.get(tenant, 0))

    def raise_floor(self, tenant: str, fence: int) -> None:
        """Note that a pool of this tenant with this fence was removed."""
        if fence > self.raised_floors.get(tenant, 0):
            self.raised_floors = {**self.raised_floors, tenant: fence}

    def may_be_due(self, pool: Key) -> bool:
        """Return whether any leg on a pool may become due within this batch. Gives none out."""
        waiting = self._candidates.get(pool)
        if waiting is None:
            waiting = self._candidates[pool] = self.loaded.due(pool)
        return bool(waiting) or pool in self._fresh

    def take_due(self, pool: Key, now: Slot) -> list[DueLeg]:
        """Return candidates for return on a pool at `now`, each once, so that a batch never pays twice for a backlog.

        The caller must check whether each is still due: it may have ended or been extended in this batch.
        """
        waiting = self._candidates.get(pool)
        if waiting is None:
            waiting = self._candidates[pool] = self.loaded.due(pool)
        if pool in self._fresh:
            waiting = waiting + self._fresh.pop(pool)
        if not waiting:
            return waiting
        self._candidates[pool] = [leg for leg in waiting if leg[0] > now]
        due = [leg for leg in waiting if leg[0] <= now]
        if self._mark is not None:
            self._taken.append((pool, due))
        return due

    def begin_atomic(self) -> None:
        """Open an undo mark: either `keep` or `roll_back` follows."""
        self.atomic = True
        self._mark = (len(self.entries), len(self.numbers), self.raised_floors, self.grown[:], self.limits)
        for table in self._tables():
            table.undo = {}

    def keep(self) -> None:
        """Close the mark and keep everything."""
        self.atomic, self._mark, self._taken = False, None, []
        for table in self._tables():
            table.undo = None

    def roll_back(self) -> None:
        """Undo everything since the mark."""
        assert self._mark is not None
        entries, answers, self.raised_floors, self.grown, self.limits = self._mark
        del self.entries[entries:], self.numbers[answers:]
        for table in self._tables():
            table.roll_back()
        for pool, due in self._taken:
            self._fresh.setdefault(pool, []).extend(due)
        self._restore_lines()
        self.atomic, self._mark, self._taken = False, None, []

    def _restore_lines(self) -> None:
        """Free the places taken since the mark, so that others get them."""
        for pool, (front, _) in self._lines.items():
            row = self.pools.get(pool)
            last = 0 if row is None else row.last_number
            while front and front[-1][0] > last:
                front.pop()

    def _tables(self) -> tuple[Table[Key, Pool], Table[Key, StoredHold], Table[Key, Operation],
                               Table[RecordKey, Record], Table[TallyKey, Tally]]:  # fmt: skip
        return self.pools, self.holds, self.operations, self.records, self.tallies
