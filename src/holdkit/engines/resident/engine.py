"""The engine on tables in memory: loading is a lookup, committing is `_persist` and then an assignment.

It decides on its own dicts through the core's overlay; no read sees a batch before `_persist` has returned. All tables are bounded.
Subclasses say what makes a batch durable and where the journal is; they add no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from threading import TIMEOUT_MAX, RLock
from typing import Any, TypeVar, cast

from ...core.audit import audit
from ...core.audit_rows import Difference, Folded, Stored
from ...core.bounds import Limits
from ...core.commands import Group, Sweep
from ...core.decide import NOTHING_DUE, SweepList, decide_groups
from ...core.ladders.expiry import backlog, own_time, return_backlog
from ...core.ladders.finding import prunable
from ...core.ladders.lines import served
from ...core.limits import LIMITS_KEY
from ...core.line_loading import lines_to_load
from ...core.model import SECOND, Key, Slot
from ...core.needs import Needs, needs
from ...core.reading import Query, ReadGeneration
from ...core.retention import retired_until
from ...core.table_bounds import overflow, portion, retirements, spare, unnamed
from ...core.touching import groups_put_off
from ...core.view import NOBODY, Counts, Loaded, LoadLine, View
from ...errors import EngineError, InvalidRequest, Overloaded, PromiseBroken
from ..clocks import Clock, wall_clock
from ..deadlines import within
from ..durability import IN_MEMORY
from ..port import Applied, Capabilities, Lent, positions_of
from ..rollups import MemoryRollups
from ..settings import StoredLimits
from ..whole_journal import Meter, Progress, Spill
from .journal_reads import Journal, WhileFolded
from .reads import answer
from .tables import Tables

T = TypeVar("T")

BOUNDED = Limits(max_pools=100_000, max_holds=100_000, max_operations=100_000)
"""The bounds of an engine that was given none."""

PRUNED = 1_000
"""Rows of each kind that one batch prunes at most."""
FED_LINES = 100
"""Lines that one sweep feeds at most, besides those of the pools on which it returns units."""
SWEPT_POOLS = 100
"""Empty pools that one sweep removes at most."""


class ResidentEngine:
    """Everything in dicts; safe to share between threads."""

    url = ""
    lanes = 1
    sql = False
    serial = True
    durability = IN_MEMORY
    _journal: Journal

    def __init__(
        self, *, clock: Clock | None = None, limits: Limits | None = None, secret: bytes | None = None
    ) -> None:
        self.clock: Clock = clock or wall_clock
        self.stored = StoredLimits(limits or BOUNDED, secret=secret)
        self._tables = Tables()
        self._writing = RLock()  # one batch at a time
        self._lock = RLock()  # what reads and the last step of a batch share: never held while something is synced
        self._closed = False
        self._rollups = MemoryRollups()

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do beyond the port."""
        return Capabilities(lend=self, rollups=self._rollups)

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self.stored.in_force

    @property
    def _generation(self) -> str:
        """Which life of the journal this is."""
        raise NotImplementedError

    def _persist(self, view: View) -> None:
        """Make the batch durable, or raise: called before anything of it can be seen."""
        raise NotImplementedError

    def apply(self, groups: Sequence[Group], *, wait_for_locks: bool = False) -> Applied:  # noqa: ARG002  (nothing to wait for)
        """Decide on the live dicts, then write back what changed."""
        with self._exclusive():
            self._check_open()
            slot = self.clock()
            wanted = needs(groups, self.stored.names(self.limits))
            first = self._make_room(wanted, slot)
            self._return_backlog(wanted, slot)
            listed = self._sweep_list(wanted.sweep, slot)
            view = self._view(slot, self._lines(groups, wanted, listed, slot) if self._tables.lines else None)
            outcomes = decide_groups(view, groups, listed)
            self._write(view)
            wrote = bool(view.entries or view.operations.changed)
            later = groups_put_off(view, groups, outcomes) if view.put_off else frozenset()
            positions = positions_of(outcomes, view.numbers)
            views = [*first, view]
            left = tuple(sorted(set[Key]().union(*(one.unfed for one in views)))) if first or view.unfed else ()
            woken = sum(map(served, views), ()) if view.has_lines or first else ()
            return Applied(outcomes, self._journal.last_seq, wrote, put_off=later, positions=positions, unfed=left,
                           served=woken)  # fmt: skip

    def lend(self, work: Callable[[Lent], T]) -> T:
        """Run `work` while nobody else writes. There is no SQL, so what it applies is done at once."""
        with self._exclusive():
            self._check_open()
            return work(_OwnTransaction(self))

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        """One batch at a time; `Overloaded` if another thread takes too long, as application code in `lend` may."""
        seconds = within(self.limits.lock_timeout / SECOND)
        if not self._writing.acquire(timeout=min(seconds, TIMEOUT_MAX)):
            raise Overloaded(f"another thread kept its turn for {seconds:.3g} s", retry_after=1.0)
        try:
            yield
        finally:
            self._writing.release()

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:  # noqa: ARG002  (the port's)
        """This engine has no SQL, so there are no callers' transactions."""
        self._check_open()
        name = self.url.partition(":")[0]
        raise InvalidRequest(f"the {name} engine has no transactions to join", field="tx", code="tx_unsupported")

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """The same in a task."""
        return self.apply_in(tx, groups, lock)

    def read_in(self, tx: Any, query: Query[T]) -> T:  # noqa: ARG002  (the port's)
        """This engine has no SQL, so there are no callers' transactions."""
        self.apply_in(tx, [])
        raise AssertionError("unreachable")

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        """The same in a task."""
        return self.read_in(tx, query)

    def read(self, query: Query[T], *, durable: bool = False) -> T:  # noqa: ARG002  (nothing else can be seen)
        """Answer a question."""
        with self._lock:
            self._check_open()
            if isinstance(query, ReadGeneration):
                return cast(T, self._generation)
            result: T = answer(query, self._tables, self._journal, self.limits, self.clock())
            return result

    def listen(self, wake: Callable[[], None]) -> None:
        """Nothing to do: there are no others."""

    def verify(self, progress: Progress | None = None) -> Generator[Difference, None, None]:
        """Fold the journal, and compare."""
        yield from self._audit(progress)

    def _audit(self, progress: Progress | None, entries: WhileFolded | None = None) -> list[Difference]:
        """Compare with the whole journal, or with what `entries` gives while it is folded."""
        with self._writing, closing(Spill()) as spill:
            self._check_open()
            tables = self._tables
            legs = {
                (tenant, pool, tables.holds[tenant, hold].leg_deadline, hold): leg
                for (tenant, pool), holds in tables.legs.items()
                for hold, leg in holds.items()
            }
            stored = Stored(tables.pools, tables.holds, tables.records, legs, tables.fence_floors, tables.tallies)
            now = max(self.clock(), tables.last_slot)
            meter = Meter(progress, self._journal.last_seq)
            folded = Folded(spill.table)
            journal = self._journal.whole() if entries is None else entries(folded)
            found = list(audit(meter.over(journal), stored, self.stored.created, now, folded))
            meter.finish()
            return found

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("the engine is closed")

    # One transaction

    def _lines(self, groups: Sequence[Group], wanted: Needs, listed: SweepList, slot: Slot) -> LoadLine | None:
        """How to load the lines of the pools that a batch touches; None if nobody waits anywhere, and nobody may begin to."""
        tables = self._tables
        if not tables.lines:
            return None
        ending = [tables.holds[key] for key in listed.holds]
        touched = {
            *self._touched(wanted, slot),
            *listed.lines,
            *((one.tenant, name) for one in ending for name in one.pools),
        }
        pools = {key: pool for key in touched if (pool := tables.pools.get(key)) is not None}
        horizon = max(slot, tables.last_slot)
        due = {key: tables.due(key, horizon) for key in pools if key in tables.lines}
        wanted_lines = lines_to_load(groups, pools, tables.holds, due, self.limits, ending)
        return lambda pool: tables.front(pool, load.limit, load.most) if (load := wanted_lines.get(pool)) else NOBODY

    def _view(self, slot: Slot, line: LoadLine | None = None) -> View:
        tables, limits = self._tables, self.limits
        horizon = max(slot, tables.last_slot)
        counts = Counts(len(tables.pools), tables.live_at(slot), tables.operations.after(slot))
        loaded = Loaded(
            slot=slot,
            next_seq=self._journal.last_seq + 1,
            pools=tables.pools,
            holds=tables.holds,
            operations=tables.operations,
            records=tables.records,
            due=lambda pool: tables.due(pool, horizon),
            horizon=horizon,
            limits=limits,
            fence_floors=tables.fence_floors,
            counts=counts,
            tallies=tables.tallies,
            line=line,
            names=self.stored.names(limits),
        )
        return View(loaded)

    def _write(self, view: View) -> None:
        if view.entries or view.operations.changed:
            self._persist(view)
            with self._lock:
                self._put(view)
                self._prune(view.loaded.slot)  # behind every write and only there: replay prunes at the same places

    def _put(self, view: View) -> None:
        """Write back what changed. Nothing here can fail."""
        tables = self._tables
        for pool_key, pool in view.pools.changed.items():
            if pool is not None or pool_key in tables.pools:  # one born and removed in the same batch was never here
                tables.put_pool(pool_key, pool)
        for hold_key, hold in view.holds.changed.items():
            if hold is not None:
                tables.put_hold(hold_key, hold)
            elif hold_key in tables.holds:
                tables.drop_hold(hold_key)
        for tally_key, tally in view.tallies.changed.items():
            tables.put_tally(tally_key, tally)
        for operation in view.operations.changed.values():
            assert operation is not None, "the core never removes an operation"
            tables.operations.put(operation)
        for record_key, record in view.records.changed.items():
            tables.put_record(record_key, record)
        if LIMITS_KEY in view.records.changed:
            self.stored.adopt(tables.records.get(LIMITS_KEY))
        for tenant in view.raised_floors:
            tables.fence_floors[tenant] = view.fence_floor(tenant)
        tables.last_slot = max(tables.last_slot, view.loaded.slot)

    # What goes before and after it

    def _return_backlog(self, wanted: Needs, slot: Slot) -> None:
        """Return due legs in transactions of their own while more are due than one may return."""
        if not self._tables.any_due(max(slot, self._tables.last_slot)):
            return
        while True:
            touched = self._touched(wanted, slot)  # anew: a hold whose last legs have returned may be prunable by now
            view, few = self._view(slot), self.limits.max_due + 1
            first = backlog(view, {pool: self._tables.due(pool, own_time(view, pool), few) for pool in touched})
            if not first:
                return
            return_backlog(view, first)
            self._write(view)

    def _touched(self, wanted: Needs, slot: Slot) -> list[Key]:
        """Every pool that the batch names itself or through a hold."""
        pools = set(wanted.pools)
        for key in wanted.standing:
            hold = self._tables.holds.get(key)
            if hold is not None and not prunable(hold, self.limits, slot):  # as the core's own `touched`
                pools.update((hold.tenant, name) for name in hold.pools)
        return sorted(pools)

    def _sweep_list(self, limit: int, slot: Slot) -> SweepList:
        if not limit:
            return NOTHING_DUE
        tables, limits = self._tables, self.limits
        holds, more = tables.due_holds(slot, limit, limits.max_due)
        old = ((key, len(tables.holds[key].pools)) for key in tables.retiring(limit + 1, slot, limits))
        retiring, left = portion(old, limit, limits.max_due)
        pools = tables.idle_pools(SWEPT_POOLS, slot, limits.retention)
        lines = tables.waiting_pools(FED_LINES) if tables.lines else []
        return SweepList(holds, pools, more or left, retiring=retiring, lines=lines)

    def _make_room(self, wanted: Needs, slot: Slot) -> list[View]:
        """Where a bounded table would overflow with rows that only a sweep can end, sweep first: people forget. Returns what these
        sweeps have written."""
        tables, limits = self._tables, self.limits
        views: list[View] = []
        over = overflow(limits, wanted, len(tables.holds) - tables.ended, len(tables.pools))
        if over.holds:
            due, _ = tables.due_holds(slot, limits.max_due, limits.max_due)
            views += self._sweep_first(SweepList(due, []), slot)
        if over.pools:
            idle = tables.idle_pools(over.pools + len(wanted.pools), slot, None)
            views += self._sweep_first(SweepList([], spare(idle, wanted, over.pools), pressed=True), slot)
        count = retirements(limits, wanted, len(tables.holds) - tables.ended, tables.consumed)
        if count:
            oldest = unnamed(tables.retiring(count + len(wanted.holds), None, limits), wanted, count)
            views += self._sweep_first(SweepList([], [], pressed=True, retiring=oldest), slot)
        return views

    def _sweep_first(self, listed: SweepList, slot: Slot) -> list[View]:
        if not (listed.holds or listed.pools or listed.retiring):
            return []
        view = self._view(slot, self._lines((), needs(()), listed, slot))
        decide_groups(view, [Group((Sweep(limit=max(len(listed.holds), len(listed.retiring))),))], listed)
        self._write(view)
        return [view]

    def _prune(self, slot: Slot) -> None:
        """Remove a few rows that are gone for every reader already."""
        tables, limits = self._tables, self.limits
        tables.operations.forget(slot, PRUNED)
        count = min(PRUNED, tables.ended_until(retired_until(limits, slot)))
        if limits.max_holds is not None:
            count = max(count, len(tables.holds) - limits.max_holds)
        if count > 0:
            self._journal.forget(tables.forget_holds(count))


class _OwnTransaction:
    """What `lend` hands out: no transaction, and one batch."""

    tx: None = None

    def __init__(self, engine: ResidentEngine) -> None:
        self._engine = engine
        self._used = False

    def apply(self, groups: Sequence[Group]) -> Applied:
        """At once, and once: what was applied could not be taken back if the rest failed."""
        if self._used:
            raise PromiseBroken("a turn without SQL was used twice")
        self._used = True
        return self._engine.apply(groups)
