"""The transaction as a script: load, let the core decide, write back.

A generator that yields statements and receives their rows, so that the same steps run on our connection and on a caller's. It begins
and commits nothing, and holds no rule. If something must go first (more legs are due than one transaction may return, or a bounded table
needs room), the run does only that and says so: whoever runs it commits and runs it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ...core.bounds import Limits
from ...core.commands import Group, Sweep
from ...core.decide import SweepList, decide_groups
from ...core.ladders.expiry import backlog, return_backlog
from ...core.ladders.lines import left_to_offer, served
from ...core.limits import LIMITS_KEY
from ...core.model import Key, Slot, StoredHold
from ...core.needs import Needs, needs
from ...core.outcomes import Outcome, Position
from ...core.table_bounds import overflow, retirements, spare, unnamed
from ...core.touching import groups_put_off
from ...core.view import View
from ..clocks import Clock
from ..port import positions_of
from ..settings import StoredLimits
from .driver import Row, Script, Statement
from .loading import LoadedBatch, gather
from .rows import record_of, setting_row
from .writing import prune, write_back


class ScriptResult(Struct):
    """The result of one run of the script."""

    outcomes: list[list[Outcome]] | None
    """None: only what goes first was done (a backlog of due legs, room in a bounded table); commit, then run again."""
    last_seq: int
    written: int
    """Rows written, pruned ones not counted; 0 means that there is nothing to commit."""
    committed_row: tuple[str, Row] | None
    """A row that exists if and only if this transaction was committed: its table's name, and the row. Looked for if COMMIT fails."""
    positions: list[list[Position | None]] = []
    """The journal position of each outcome."""
    put_off: frozenset[int] = frozenset()
    """Groups, by index, that are left for the next transaction."""
    unfed: tuple[Key, ...] = ()
    """Pools with units left to offer to those who wait there."""
    served: tuple[StoredHold, ...] = ()
    """Holds that waited in line, and wait no longer."""


class RetryState(Struct):
    """What the runs of one batch have done so far: each may be run several times, see `ScriptResult.outcomes`."""

    counted: bool = False
    """Whether it is known how much room the batch needs in bounded tables."""
    sweep_holds: bool = False
    pools_over: int = 0
    """How many pools too many there would be."""
    retired: bool = False
    """Whether ended holds whose units are consumed have made room."""
    unfed: frozenset[Key] = frozenset()
    """Pools whose lines had more to offer than the transaction that made room may."""
    served: tuple[StoredHold, ...] = ()
    """Who waits no longer after the transaction that made room."""

    def note_lines(self, view: View) -> None:
        """After a run: which lines it has left to feed, and who waits no longer."""
        self.unfed |= left_to_offer(view)
        self.served += served(view)


def apply_script(
    groups: Sequence[Group],
    clock: Clock,
    stored: StoredLimits,
    retry_state: RetryState,
    write_always: bool = False,
    *,
    may_offer: bool = True,
) -> Script[ScriptResult]:
    """Apply the groups in order. If another process has changed the limits, this run only adopts them.

    `may_offer`: whether units are offered to those who wait; not in a caller's transaction, for an offer could end before its commit.
    `write_always`: write something in any case, so that this commit overwrites in the WAL what a failed commit has left there."""
    slot, limits = clock(), stored.in_force
    names = stored.names(limits)
    need = needs(groups, names)
    if limits.max_pools is not None or limits.max_holds is not None:
        ran = yield from make_room(need, slot, stored, retry_state)
        if ran is not None:
            return ran
    loaded_batch = yield from gather(need, slot, limits, groups=groups, may_offer=may_offer, names=names)
    if loaded_batch.version != limits.version:
        return (yield from take_over(stored, retry_state))
    view = View(loaded_batch.loaded)
    if loaded_batch.due and (excess := backlog(view, loaded_batch.due)):
        return_backlog(view, excess)
        return (yield from write_only(view))
    outcomes = decide_groups(view, groups, loaded_batch.swept)
    ran = yield from finish(view, loaded_batch, need, limits, slot)
    ran.outcomes, ran.positions = outcomes, positions_of(outcomes, view.numbers)
    if view.put_off:
        ran.put_off = groups_put_off(view, groups, outcomes)
    if view.has_lines:
        retry_state.note_lines(view)
    ran.unfed, ran.served = tuple(sorted(retry_state.unfed)), retry_state.served
    if write_always and not ran.written:
        yield (Statement("put_setting", setting_row("scrubbed", slot)),)
        ran.written = 1
    return ran


def take_over(stored: StoredLimits, retry_state: RetryState) -> Script[ScriptResult]:
    """Another process has changed the limits: run the batch again, from the beginning, under those."""
    (rows,) = yield (Statement("load_record", LIMITS_KEY),)
    stored.adopt(record_of(rows[0]) if rows else None)
    retry_state.counted, retry_state.sweep_holds, retry_state.pools_over, retry_state.retired = False, False, 0, False
    return ScriptResult(None, 0, 0, None)


def make_room(need: Needs, slot: Slot, stored: StoredLimits, retry_state: RetryState) -> Script[ScriptResult | None]:
    """Where a bounded table would overflow with rows that only a sweep can end, sweep first, because callers may not have swept."""
    limits = stored.in_force
    if not retry_state.counted:
        retry_state.counted = True
        unended, pools = yield (Statement("count_unended_holds"), Statement("count_pools"))
        over = overflow(limits, need, unended[0][0], pools[0][0])
        retry_state.sweep_holds, retry_state.pools_over = over.holds, over.pools
    if retry_state.sweep_holds:
        retry_state.sweep_holds = False
        loaded_batch = yield from gather(_sweeping(limits.max_due), slot, limits, 0, groups=())
        if loaded_batch.swept.holds:
            return (yield from sweep_first(loaded_batch, SweepList(loaded_batch.swept.holds, []), stored, retry_state))
    if retry_state.pools_over:  # after the holds, for those may have left their pools empty
        excess, retry_state.pools_over = retry_state.pools_over, 0
        loaded_batch = yield from gather(_sweeping(1), slot, limits, excess + len(need.pools), pressed=True)
        empty = spare(loaded_batch.swept.pools, need, excess)
        if empty:
            return (yield from sweep_first(loaded_batch, SweepList([], empty, pressed=True), stored, retry_state))
    if limits.max_holds is not None and not retry_state.retired:
        retry_state.retired = True
        return (yield from retire_first(need, slot, stored, retry_state))
    return None


def retire_first(need: Needs, slot: Slot, stored: StoredLimits, retry_state: RetryState) -> Script[ScriptResult | None]:
    """Where the table of holds is full of ended ones whose units are consumed, the oldest go first."""
    limits = stored.in_force
    unended, consumed = yield (Statement("count_unended_holds"), Statement("count_consumed_holds"))
    count = retirements(limits, need, unended[0][0], consumed[0][0])
    if not count:
        return None
    loaded_batch = yield from gather(_sweeping(count + len(need.holds)), slot, limits, 0, pressed=True)
    oldest = unnamed(loaded_batch.swept.retiring, need, count)
    if not oldest:
        return None
    return (yield from sweep_first(loaded_batch, SweepList([], [], pressed=True, retiring=oldest), stored, retry_state))


def sweep_first(
    loaded_batch: LoadedBatch, listed: SweepList, stored: StoredLimits, retry_state: RetryState
) -> Script[ScriptResult]:
    """Sweep these and do nothing else."""
    if loaded_batch.version != stored.in_force.version:
        return (yield from take_over(stored, retry_state))
    view = View(loaded_batch.loaded)
    decide_groups(view, [Group((Sweep(limit=max(1, len(listed.holds), len(listed.retiring))),))], listed)
    retry_state.note_lines(view)
    return (yield from write_only(view))


def write_only(view: View) -> Script[ScriptResult]:
    """What went first, and nothing else."""
    statements = write_back(view)
    yield tuple(statements)
    if view.limits.max_holds is not None:
        yield from keep_bound(view, view.limits.max_holds)
    return _ran(view, statements)


def _sweeping(limit: int) -> Needs:
    return Needs(set(), set(), set(), set(), limit)


def finish(view: View, loaded_batch: LoadedBatch, need: Needs, limits: Limits, slot: Slot) -> Script[ScriptResult]:
    """Write back, make room, prune."""
    statements = write_back(view)
    ran = _ran(view, statements)
    if ran.written or need.sweep:
        pruning = prune(loaded_batch, limits, slot, ran.written, sweeping=bool(need.sweep))
        ran.written += len(pruning)
        statements += pruning
    if statements:
        yield tuple(statements)
    if view.limits.max_holds is not None:
        yield from keep_bound(view, view.limits.max_holds)
    return ran


def keep_bound(view: View, bound: int) -> Script[None]:
    """Behind every write that may have left more holds than `bound`: ended ones leave, oldest first."""
    if view.holds.changed or LIMITS_KEY in view.records.changed:
        rows = yield (Statement("count_holds"),)
        excess = rows[0][0][0] - bound
        if excess > 0:
            yield (Statement("make_room", (excess,)),)


def _ran(view: View, statements: list[Statement]) -> ScriptResult:
    written, last_seq = 0, view.loaded.next_seq - 1
    committed_row: tuple[str, Row] | None = None
    for name, rows, many in statements:
        written += len(rows) if many else 1
        if name == "insert_journal":
            committed_row, last_seq = ("journal", rows[0]), rows[-1][0]
        elif name == "put_operations" and committed_row is None:
            committed_row = ("operations", rows[0])
    return ScriptResult(None, last_seq, written, committed_row)
