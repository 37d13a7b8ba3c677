"""A memory engine whose journal is told in several lanes, as a PostgreSQL one would be: numbered per lane, parts and all."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from threading import RLock
from typing import Any, TypeVar

from msgspec import structs

from holdkit.core.archived import FindArchived, ReadBaseline
from holdkit.core.audit_rows import Difference
from holdkit.core.baseline import KINDS, ArchivedLane, BaselineRow, KnownFile, RowKey
from holdkit.core.bounds import Limits
from holdkit.core.codec import encode_entry
from holdkit.core.commands import Group
from holdkit.core.entries import Effect, Entry
from holdkit.core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from holdkit.core.model import Key
from holdkit.core.outcomes import Position
from holdkit.core.pages import Page, page_of
from holdkit.core.reading import (
    FindEnds,
    FindEntries,
    JournalRow,
    Query,
    ReadHistory,
    ReadJournal,
    ReadPoolHistory,
    TakeSurvey,
    entry_of,
    row_bytes,
    touches,
)
from holdkit.core.searching import SearchJournal, fits_entry
from holdkit.engines.archiving import StoredRow, step_of
from holdkit.engines.clocks import Clock
from holdkit.engines.journal_search import search_lanes
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import Applied, Capabilities
from holdkit.engines.progress import Progress
from holdkit.testing import FakeClock

T = TypeVar("T")


class LanedEngine:
    """`by_lane` says how pages are mixed: lane after lane, or else in the order of writing."""

    url = "memory://"
    capabilities = Capabilities()

    def __init__(
        self, lanes: int = 5, *, clock: Clock | None = None, limits: Limits | None = None, by_lane: bool = False
    ) -> None:
        self.lanes, self._by_lane = lanes, by_lane
        self.inner = MemoryEngine(clock=clock or FakeClock(), limits=limits)
        self.stored, self.clock, self.durability = self.inner.stored, self.inner.clock, self.inner.durability
        self._lock = RLock()
        self.written: list[JournalRow] = []
        self._places: dict[int, tuple[int, int]] = {}
        self.archived: dict[int, ArchivedLane] = {}
        self._baselines: dict[int, dict[RowKey, str]] = {}
        self.asked: list[Query[Any]] = []
        self.answered: Callable[[Query[Any]], None] | None = None
        """Called when a read has its answer, before the reader has it."""
        self.after: Callable[[Sequence[Group]], None] | None = None

    @property
    def limits(self) -> Limits:
        return self.inner.limits

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        with self._lock:
            try:
                applied = self.inner.apply(groups, until=until, wait_for_locks=wait_for_locks)
            finally:  # a batch that failed may have returned a backlog
                self._spread()
            positions = [[self._placed(position) for position in group] for group in applied.positions]
        if self.after is not None:
            self.after(groups)
        return structs.replace(applied, last_seq=None, positions=positions)

    def _spread(self) -> None:
        for row in self.inner.read(ReadJournal(None, {0: len(self._places)}, 1_000_000)):
            self._places[row.seq] = self._write(entry_of(row))

    def _write(self, entry: Entry) -> tuple[int, int]:
        by_lane: dict[int, list[Effect]] = {}
        for effect in entry.effects:
            by_lane.setdefault(lane_of_pool(effect.pool.key, self.lanes), []).append(effect)
        of_hold = entry.refused is not None and entry.refused.of_hold
        if entry.refused is not None and not of_hold:
            home = lane_of_pool((entry.tenant, entry.subject), self.lanes)
        elif entry.hold is not None or entry.change is not None or of_hold:
            home = lane_of_hold(entry.subject, self.lanes)
        else:
            home = lane_of_record(entry.record.key, self.lanes) if entry.record is not None else next(iter(by_lane))
        place = self._put(home, structs.replace(entry, effects=tuple(by_lane.pop(home, ()))))
        for lane, effects in by_lane.items():
            self._put(
                lane,
                structs.replace(entry, effects=tuple(effects), hold=None, change=None, part=True, forced=False),
            )
        return place

    def _put(self, lane: int, entry: Entry) -> tuple[int, int]:
        through = self.archived[lane].through if lane in self.archived else 0
        seq = 1 + through + sum(row.lane == lane for row in self.written)
        self.written.append(JournalRow(seq, encode_entry(entry), lane))
        return lane, seq

    def _placed(self, position: Position | None) -> Position | None:
        return None if position is None else Position(*self._places[position.seq])

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        return self.inner.apply_in(tx, groups, lock)

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        return self.apply_in(tx, groups, lock)

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        with self._lock:
            self.asked.append(query)
            answer: Any = self._answer(query)
        if self.answered is not None:
            self.answered(query)
        result: T = answer
        return result

    def _answer(self, query: Query[Any]) -> Any:
        match query:
            case ReadJournal():
                rows = [
                    row
                    for row in (sorted(self.written, key=_position) if self._by_lane else self.written)
                    if row.seq > query.after.get(row.lane, 0) and query.tenant in (None, entry_of(row).tenant)
                ]
                return page_of(rows, row_bytes, query.limit, query.max_bytes)
            case ReadHistory():
                rows = [
                    row
                    for row in self.written
                    if row.seq > query.after.get(row.lane, 0) and _about(entry_of(row)) == (query.tenant, query.subject)
                ]
                return page_of(rows, row_bytes, query.limit, query.max_bytes)
            case ReadPoolHistory():
                rows = [
                    row
                    for row in self.written
                    if row.seq > query.after.get(row.lane, 0)
                    and entry_of(row).tenant == query.tenant
                    and touches(entry_of(row), query.pool)
                ]
                return page_of(rows, row_bytes, query.limit, query.max_bytes)
            case SearchJournal():
                return search_lanes(query, self._kept(), partial(self._between, query))
            case FindEnds():
                last = {row.lane: row for row in self.written}
                return [last[lane] for lane in sorted(last)]
            case FindEntries():
                return sorted((row for row in self.written if _position(row) in query.positions), key=_position)
            case FindArchived():
                return [self.archived[lane] for lane in sorted(self.archived)]
            case ReadBaseline():
                return self._baseline_page(query)
            case TakeSurvey():
                return structs.replace(self.inner.read(query), entries=len(self.written))
        return self.inner.read(query)

    def _kept(self) -> dict[int, tuple[int, int]]:
        """The first and the last number of each lane."""
        lanes = sorted({row.lane for row in self.written})
        numbers = {lane: [row.seq for row in self.written if row.lane == lane] for lane in lanes}
        return {lane: (min(seqs), max(seqs)) for lane, seqs in numbers.items()}

    def _between(self, query: SearchJournal, lane: int, above: int, upto: int, limit: int) -> Page[JournalRow]:
        rows = [row for row in self.written if row.lane == lane and above < row.seq <= upto]
        fitting = [row for row in rows if fits_entry(entry_of(row), query)]
        return page_of(fitting[::-1] if query.newest_first else fitting, row_bytes, limit, query.max_bytes)

    def replace(self, lane: int, seq: int, text: str | None) -> None:
        """Another journal from here on: the entries of this lane from a number on are gone, or one of them is another."""
        with self._lock:
            kept = [row for row in self.written if row.lane != lane or row.seq < seq]
            self.written[:] = kept if text is None else [*kept, JournalRow(seq, text, lane)]

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Nobody else reads or writes meanwhile."""
        with self._lock:
            yield

    def archive(self, through: Mapping[int, int], place: str = "/archive") -> None:
        """The entries of each of these lanes, through a number, leave the journal as they do for files."""
        with self._lock:
            for lane, last in through.items():
                before = self.archived.get(lane, ArchivedLane(lane, 0, 0, "", ""))
                rows = [row for row in self.written if row.lane == lane and row.seq <= last]
                baseline = self._baselines.setdefault(lane, {})
                file = KnownFile(last, 0, "", place)
                step = step_of(before, rows, before.through + 1, file, _Baseline(baseline))
                baseline.update(step.put)
                for key in step.remove:
                    baseline.pop(key, None)
                self.archived[lane] = step.archived
                self.written[:] = [row for row in self.written if row not in rows]

    def change_baseline(self, lane: int) -> None:
        """Rows of a lane's baseline change, as when those leave it that nothing needs."""
        archived = self.archived[lane]
        self.archived[lane] = structs.replace(archived, edition=archived.edition + 1)

    def _baseline_page(self, query: ReadBaseline) -> Page[BaselineRow]:
        archived, rows = self.archived.get(query.lane), self._baselines.get(query.lane, {})
        if archived is None or archived.through != query.through:
            return Page()
        keys = sorted((KINDS.index(kind), tenant, id, part) for kind, tenant, id, part in rows if kind in KINDS)
        after = None if query.after is None else (KINDS.index(query.after[0]), *query.after[1:])
        wanted = [key for key in keys if query.tenant in (None, key[1]) and (after is None or key > after)]
        page = [(KINDS[key[0]], *key[1:]) for key in wanted[: query.limit]]
        return Page([BaselineRow(*key, rows[key], rows.get(("pool", key[1], key[2], ""))) for key in page])

    def read_in(self, tx: Any, query: Query[T]) -> T:
        return self.inner.read_in(tx, query)

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        return self.read_in(tx, query)

    def listen(self, wake: Callable[[], None]) -> None:
        """There are no others."""

    def verify(self, progress: Progress | None = None) -> Generator[Difference, None, None]:
        return self.inner.verify(progress)

    def close(self) -> None:
        self.inner.close()


class _Baseline:
    """The rows of a lane's baseline. Every hold is needed."""

    def __init__(self, rows: Mapping[RowKey, str]) -> None:
        self._rows = rows

    def load(self, keys: Sequence[RowKey]) -> Mapping[RowKey, StoredRow]:
        return {key: StoredRow(self._rows[key], 0) for key in keys if key in self._rows}

    def needed(self, holds: Sequence[Key], behind: int) -> Collection[Key]:
        return holds

    def measure(self) -> tuple[int, int]:
        return 0, 0


def _position(row: JournalRow) -> tuple[int, int]:
    return row.lane, row.seq


def _about(entry: Entry) -> tuple[str, str]:
    return entry.tenant, entry.subject
