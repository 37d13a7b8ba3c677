"""Broken engines: the memory engine with one named bug each. The conformance kit must catch every one of them.

They prove that the kit finds bugs; do not store anything in them. `BROKEN` says which check must catch which bug.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import inf
from threading import Barrier, BrokenBarrierError, get_ident
from typing import Any, Final, TypeVar, cast

from msgspec import structs

from ..core.bounds import Limits
from ..core.commands import AnyCommand, Group, PlaceHold, ReleaseHold
from ..core.decide import SweepList, decide_groups, positions_of
from ..core.entries import Action, Entry
from ..core.ladders.expiry import expire, own_time
from ..core.model import Key, Slot
from ..core.needs import Needs, needs
from ..core.outcomes import Operation
from ..core.outstanding import Tally, TallyKey
from ..core.reading import Query, ReadJournal
from ..core.view import DueLeg, FrontOfLine, LoadLine, View
from ..engines.clocks import Clock
from ..engines.memory import MemoryEngine
from ..engines.memory.journal import Journal
from ..engines.memory.tables import Tables
from ..engines.port import Applied, Lent

T = TypeVar("T")


class _OnTables(MemoryEngine):
    tables: type[Tables]

    def __init__(self, *, clock: Clock | None = None, limits: Limits | None = None) -> None:
        super().__init__(clock=clock, limits=limits)
        self._tables = self.tables()


class _LateTables(Tables):
    def due(self, pool: Key, until: Slot, limit: int | None = None) -> list[DueLeg]:
        return super().due(pool, until - 1, limit)


class ExpiresLate(_OnTables):
    """Off by one: due is `deadline < now` where it must be `deadline <= now`."""

    tables = _LateTables


class _BlindTables(Tables):
    blind = False

    def due(self, pool: Key, until: Slot, limit: int | None = None) -> list[DueLeg]:
        return [] if self.blind else super().due(pool, until, limit)


class ShowsDueAsHeld(MemoryEngine):
    """Reads show the stored counters, with what is due still in them."""

    def __init__(self, *, clock: Clock | None = None, limits: Limits | None = None) -> None:
        super().__init__(clock=clock, limits=limits)
        self._tables: _BlindTables = _BlindTables()

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Answer without looking at what is due."""
        with self._lock:
            self._tables.blind = True
            try:
                return super().read(query, durable=durable)
            finally:
                self._tables.blind = False


class ForgetsOperations(MemoryEngine):
    """Writes everything but the operation records, so that a retry is applied again."""

    def _write(self, view: View) -> None:
        view.operations.changed.clear()
        super()._write(view)


class _LossyJournal(Journal):
    def append(self, entries: Iterable[Entry]) -> None:
        super().append(entry for entry in entries if entry.action is not Action.HOLD_EXTENDED)


class LosesEntries(MemoryEngine):
    """Extends holds without an entry in the journal."""

    def __init__(self, *, clock: Clock | None = None, limits: Limits | None = None) -> None:
        super().__init__(clock=clock, limits=limits)
        self._journal = _LossyJournal(100_000)


class AppliesHalfAGroup(MemoryEngine):
    """Treats an atomic group as an ordinary one: what was not refused stays."""

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        """Apply command by command."""
        return super().apply(
            [structs.replace(group, atomic=False) for group in groups], until=until, wait_for_locks=wait_for_locks
        )


class PassesEveryGuard(MemoryEngine):
    """Ignores the operation id of a group: if another group has this id, its commands that differ are executed."""

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        """Apply them as if each had its own key and nothing else."""
        return super().apply(
            [structs.replace(group, guard=None) for group in groups], until=until, wait_for_locks=wait_for_locks
        )


class CommitsEachGroup(MemoryEngine):
    """Gives every group of a batch a transaction of its own: an error in the middle leaves what came before it."""

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        """Apply group by group."""
        parts = [
            super(CommitsEachGroup, self).apply([group], until=until, wait_for_locks=wait_for_locks) for group in groups
        ]
        outcomes = [outcomes for part in parts for outcomes in part.outcomes]
        positions = [positions for part in parts for positions in part.positions]
        return Applied(outcomes, self._journal.last_seq, any(part.wrote for part in parts), positions=positions)


class ExpiresEverywhere(MemoryEngine):
    """Returns all legs of a due hold, also on pools that were not touched (and are not locked)."""

    def _return_backlog(self, wanted: Needs, slot: Slot) -> None:
        view = self._view(slot)
        for pool in self._touched(wanted, slot):
            now = own_time(view, pool)
            for _, hold_id in self._tables.due(pool, now):
                hold = view.holds.get((pool[0], hold_id))
                if hold is not None:
                    expire(view, hold, [leg.pool for leg in hold.legs], now)
        self._write(view)


class ForgetsTheBacklog(MemoryEngine):
    """Returns only the first `max_due` legs before it decides, though more are due."""

    def _return_backlog(self, wanted: Needs, slot: Slot) -> None:
        """Return nothing first."""

    def _view(self, slot: Slot, line: LoadLine | None = None) -> View:
        loaded = super()._view(slot, line).loaded
        return View(structs.replace(loaded, due=lambda pool: loaded.due(pool)[: self.limits.max_due]))


class HidesErrors(MemoryEngine):
    """Declares that it lends transactions, and keeps to itself what application code raises in one."""

    def lend(self, work: Callable[[Lent], T]) -> T:
        """Run the code and swallow what it raises."""
        with suppress(Exception):
            return super().lend(work)
        return super().lend(lambda _: cast(T, None))


class ResetsFences(MemoryEngine):
    """A pool that was removed and created again starts with fence 0."""

    def _write(self, view: View) -> None:
        view.raised_floors = {}
        super()._write(view)


class SharesFloors(MemoryEngine):
    """A pool that one tenant removes raises the fences of all."""

    def _write(self, view: View) -> None:
        tenants = {"", *(tenant for tenant, _ in self._tables.pools)}
        view.raised_floors = dict.fromkeys(tenants, max(view.raised_floors.values(), default=0))
        super()._write(view)


class LeaksTheJournal(MemoryEngine):
    """Shows the entries of all tenants to each of them."""

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Answer for all tenants."""
        asked: Query[Any] = query
        if isinstance(query, ReadJournal):
            asked = ReadJournal(None, query.after, query.limit)
        result: T = super().read(asked, durable=durable)
        return result


class _Shared(Mapping[Key, Operation]):
    def __init__(self, rows: Mapping[Key, Operation]) -> None:
        self._rows = {op: row for (_, op), row in rows.items()}

    def __getitem__(self, key: Key) -> Operation:
        return self._rows[key[1]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class SharesOperations(MemoryEngine):
    """Looks up operation ids without their tenant: one tenant gets another's answer, token included."""

    def _view(self, slot: Slot, line: LoadLine | None = None) -> View:
        view = super()._view(slot, line)
        view.operations.base = _Shared(view.operations.base)
        return view


class ChecksThenActs(MemoryEngine):
    """Decides without the lock and writes with it: two callers are granted the same last unit."""

    racing: type[AnyCommand] = PlaceHold
    """The commands that it decides so."""

    def __init__(self, *, clock: Clock | None = None, limits: Limits | None = None) -> None:
        super().__init__(clock=clock, limits=limits)
        self._came = {get_ident()}
        self._pair = Barrier(2)

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        """Decide, let others in, write."""
        if not isinstance(groups[0].commands[0], self.racing):
            return super().apply(groups, until=until, wait_for_locks=wait_for_locks)
        slot = self.clock()
        wanted = needs(groups)
        with self._lock:
            self._return_backlog(wanted, slot)
            listed = self._sweep_list(wanted.sweep, slot)
            view = self._view(slot, self._lines(groups, wanted, listed, slot))
            outcomes = decide_groups(view, groups, listed)
        self._let_others_in()
        with self._lock:
            self._write(view)
            positions = positions_of(view, outcomes)
            return Applied(outcomes, self._journal.last_seq, bool(view.entries), positions=positions)

    def _let_others_in(self) -> None:
        """Make each new thread wait for a second one, so that catching the bug needs no luck."""
        if get_ident() not in self._came:
            self._came.add(get_ident())
            with suppress(BrokenBarrierError):
                self._pair.wait(2)


class OffersTwice(ChecksThenActs):
    """Lets two releases decide before either is written: both offer their units to the same waiter, and the next one is forgotten."""

    racing = ReleaseHold


class _SortedTables(Tables):
    def asking(self, pool: Key, most: int) -> Iterator[str]:
        return iter(sorted(super().asking(pool, most)))


class SortsLinesById(_OnTables):
    """Loads those who wait in order of their ids, not of their numbers."""

    tables = _SortedTables


class _HeadTables(Tables):
    def front(self, pool: Key, limit: int, most: int) -> FrontOfLine:  # noqa: ARG002  (the signature)
        return super().front(pool, 1, max(1, self.pools[pool].total * 9))


class LoadsTheHeadOnly(_OnTables):
    """Loads only the first waiter of each line, whatever it asks for: if it cannot be served, no waiter is."""

    tables = _HeadTables


class HidesUnfedLines(MemoryEngine):
    """Does not say that a line has more to offer than one transaction may: the other waiters wait until another caller changes the pool."""

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        """Apply, and report no line with more to offer."""
        return structs.replace(super().apply(groups, until=until, wait_for_locks=wait_for_locks), unfed=())


class MakesRoomInSilence(MemoryEngine):
    """Returns due units to make room in a full table, and offers them to no waiter."""

    def _lines(self, groups: Sequence[Group], wanted: Needs, listed: SweepList, slot: Slot) -> LoadLine | None:
        return super()._lines(groups, wanted, listed, slot) if groups else None


class _GrowingTables(Tables):
    def put_tally(self, key: TallyKey, tally: Tally | None) -> None:
        before = self.tallies.get(key)
        if before is None or (tally is not None and tally.used > before.used):
            super().put_tally(key, tally)


class KeepsTallies(_OnTables):
    """Counts what accounts take, and not what comes back."""

    tables = _GrowingTables


class LoadsNoTallies(MemoryEngine):
    """Decides as if every account came for the first time."""

    def _view(self, slot: Slot, line: LoadLine | None = None) -> View:
        return View(structs.replace(super()._view(slot, line).loaded, tallies={}))


class _FlatTables(Tables):
    def due(self, pool: Key, until: Slot, limit: int | None = None) -> list[DueLeg]:
        found = super().due(pool, until, limit)
        return [leg for leg in found if any(pool[1] == named.pool for named in self.holds[pool[0], leg[1]].legs)]


class ForgetsPoolsAbove(_OnTables):
    """Returns due units to the pools that a hold names, and not to those above them."""

    tables = _FlatTables


BROKEN: Final[dict[type[MemoryEngine], str]] = {
    ExpiresLate: "deadline_is_exact",
    ShowsDueAsHeld: "reads_count_due_as_returned",
    ForgetsOperations: "same_operation_same_answer",
    LosesEntries: "every_change_has_its_entry",
    HidesErrors: "lends_a_transaction",
    AppliesHalfAGroup: "atomic_group",
    PassesEveryGuard: "one_key_for_a_group",
    CommitsEachGroup: "error_leaves_nothing",
    ExpiresEverywhere: "due_legs_return_on_touched_pools_only",
    ForgetsTheBacklog: "due_backlog_is_returned_first",
    ResetsFences: "fences_never_repeat",
    SharesFloors: "fences_stay_with_their_tenant",
    LeaksTheJournal: "nothing_crosses_tenants",
    SharesOperations: "nothing_crosses_tenants",
    ChecksThenActs: "admits_exactly",
    OffersTwice: "racing_ends_offer_every_unit_once",
    SortsLinesById: "units_are_offered_in_order",
    LoadsTheHeadOnly: "lines_follow_their_pool",
    HidesUnfedLines: "long_lines_are_fed_in_parts",
    MakesRoomInSilence: "making_room_serves_the_line",
    KeepsTallies: "tallies_move_with_their_legs",
    LoadsNoTallies: "an_account_races_itself",
    ForgetsPoolsAbove: "trees_move_every_level",
}
"""Each broken engine, and the check that must catch its bug."""
