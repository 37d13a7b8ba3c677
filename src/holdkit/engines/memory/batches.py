"""Batches on tables in memory: loading is a lookup, committing is `_persist` and then an assignment.

It decides on its own dicts through the core's overlay; no read sees a batch before `_persist` has returned. All tables are bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from threading import TIMEOUT_MAX, RLock

from ...core.bounds import Limits
from ...core.commands import Group, Sweep
from ...core.decide import NOTHING_DUE, SweepList, decide_groups, positions_of
from ...core.ladders.expiry import backlog, own_time, return_backlog
from ...core.ladders.finding import prunable
from ...core.ladders.lines import served
from ...core.limits import LIMITS_KEY
from ...core.line_loading import lines_to_load
from ...core.model import SECOND, Key, Slot
from ...core.needs import Needs, needs
from ...core.retention import retired_until
from ...core.table_bounds import overflow, portion, retirements, spare, unnamed
from ...core.touching import groups_put_off
from ...core.view import NOBODY, Counts, Loaded, LoadLine, View
from ...errors import EngineError, Overloaded
from ..clocks import Clock, wall_clock
from ..deadlines import seconds_left
from ..port import Applied
from ..settings import StoredLimits
from .journal import Journal
from .tables import Tables

BOUNDED = Limits(max_pools=100_000, max_holds=100_000, max_operations=100_000)
"""The bounds of an engine that was given none."""

PRUNED = 1_000
"""Rows of each kind that one batch prunes at most."""
FED_LINES = 100
"""Lines that one sweep feeds at most, besides those of the pools on which it returns units."""
SWEPT_POOLS = 100
"""Empty pools that one sweep removes at most."""


class Batches:
    """Tables, journal and locks; applies one batch at a time."""

    def __init__(self, *, clock: Clock | None, limits: Limits | None, secret: bytes, journal: int) -> None:
        self.clock: Clock = clock or wall_clock
        self.stored = StoredLimits(limits or BOUNDED, secret=secret)
        self._tables = Tables()
        self._journal = Journal(max(1, journal))
        self._writing = RLock()  # one batch at a time
        self._lock = RLock()  # what reads and the last step of a batch share
        self._closed = False

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self.stored.in_force

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:  # noqa: ARG002  (no locks)
        """Decide on the live dicts, then write back what changed."""
        with self._exclusive(until):
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
            positions = positions_of(view, outcomes)
            views = [*first, view]
            left = tuple(sorted(set[Key]().union(*(one.unfed for one in views)))) if first or view.unfed else ()
            woken = sum(map(served, views), ()) if view.has_lines or first else ()
            return Applied(outcomes, self._journal.last_seq, wrote, put_off=later, positions=positions, unfed=left,
                           served=woken)  # fmt: skip

    def _persist(self, view: View) -> None:
        """Add the batch to the journal. An engine that stores batches overrides this: it makes the batch durable first, or raises."""
        self._journal.append(view.entries)

    @contextmanager
    def _exclusive(self, until: float) -> Iterator[None]:
        """Admit one batch at a time; raise `Overloaded` if another thread takes too long, as application code in `lend` may."""
        seconds = seconds_left(until, self.limits.lock_timeout / SECOND)
        if not self._writing.acquire(timeout=min(seconds, TIMEOUT_MAX)):
            raise Overloaded(f"another thread kept its turn for {seconds:.3g} s", retry_after=1.0)
        try:
            yield
        finally:
            self._writing.release()

    def _check_open(self) -> None:
        if self._closed:
            raise EngineError("the engine is closed")

    # One transaction

    def _lines(self, groups: Sequence[Group], wanted: Needs, listed: SweepList, slot: Slot) -> LoadLine | None:
        """Return how to load the lines of the pools that a batch touches, or None if no hold waits or may begin to."""
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
        horizon = max([slot, *(pool.slot for pool in pools.values())])
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
            with self._lock:  # readers see journal and tables change together
                self._persist(view)
                self._put(view)
                self._prune(
                    view.loaded.slot
                )  # after every write and only there: an engine that replays its batches prunes as often

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
        """Return every pool that the batch names itself or through a hold."""
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
        """Sweep first where a bounded table would overflow with rows that only a sweep can end, because people forget to sweep. Return
        what these sweeps have written."""
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
        """Remove a few rows that every reader already sees as gone."""
        tables, limits = self._tables, self.limits
        tables.operations.forget(slot, PRUNED)
        count = min(PRUNED, tables.ended_until(retired_until(limits, slot)))
        if limits.max_holds is not None:
            count = max(count, len(tables.holds) - limits.max_holds)
        if count > 0:
            self._journal.forget(tables.forget_holds(count))
