"""The transaction as a script: load, let the core decide, write back.

A generator that yields statements and receives their rows, so that the same steps run on our connection and on a caller's. It begins and
commits nothing, and holds no rule. If something must go first (more legs are due than one transaction may return, or a bounded table
needs room), the run does only that and says so: its caller commits and runs it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ...core.bounds import Limits
from ...core.commands import Group, Sweep
from ...core.decide import SweepList, decide_groups, positions_of
from ...core.ladders.expiry import backlog, return_backlog
from ...core.ladders.lines import left_to_offer, served
from ...core.limits import LIMITS_KEY
from ...core.model import Key, Record, Slot, StoredHold
from ...core.needs import Needs, needs
from ...core.outcomes import Outcome, Position
from ...core.table_bounds import overflow, retirements, spare, unnamed
from ...core.touching import groups_put_off
from ...core.view import View
from ..clocks import Clock
from ..settings import StoredLimits
from .driver import Script, Statement
from .loading import LimitsChanged, LoadedBatch, gather
from .writing import Written, write_batch, write_rows


class RunAgain(Written, frozen=True):
    """Nothing of the batch was decided, because something goes first: a backlog of due legs was returned, a bounded table got room, or
    changed limits were adopted. Commit, then run the script again."""


class ScriptResult(Written, frozen=True, kw_only=True):
    """The batch was decided."""

    outcomes: list[list[Outcome]]
    last_seq: int
    positions: list[list[Position | None]]
    """The journal position of each outcome."""
    put_off: frozenset[int] = frozenset()
    """Groups, by index, that are left for the next transaction."""
    unfed: tuple[Key, ...] = ()
    """Pools with units left to offer to those who wait there."""
    served: tuple[StoredHold, ...] = ()
    """Holds that waited in line, and wait no longer."""


class RetryState(Struct):
    """What the runs of one batch have done so far: each may be run several times, see `RunAgain`."""

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
        """Note after a run which lines it has left to feed, and which holds wait no longer."""
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
) -> Script[ScriptResult | RunAgain]:
    """Apply the groups in order. If another process has changed the limits, this run only adopts them.

    `may_offer`: whether to offer units to waiting holds; not in a caller's transaction, because an offer could end before its commit.
    `write_always`: write something in any case, so that this commit overwrites in the WAL what a failed commit has left there."""
    slot, limits = clock(), stored.in_force
    names = stored.names(limits) if limits.version else None  # an erasure of a name changes the limits
    need = needs(groups, names)
    try:
        if limits.max_pools is not None or limits.max_holds is not None:
            again = yield from make_room(need, slot, limits, retry_state)
            if again is not None:
                return again
        loaded_batch = yield from gather(need, slot, limits, groups=groups, may_offer=may_offer, names=names)
    except LimitsChanged:
        return (yield from take_over(stored, retry_state))
    view = View(loaded_batch.loaded)
    if loaded_batch.due and (excess := backlog(view, loaded_batch.due)):
        return_backlog(view, excess)
        return (yield from write_only(view))
    outcomes = decide_groups(view, groups, loaded_batch.swept)
    batch = yield from write_batch(view, loaded_batch, sweeping=bool(need.sweep), write_always=write_always)
    if view.has_lines:
        retry_state.note_lines(view)
    return ScriptResult(
        written=batch.written,
        committed_row=batch.committed_row,
        outcomes=outcomes,
        last_seq=loaded_batch.loaded.next_seq + len(view.entries) - 1,
        positions=positions_of(view, outcomes),
        put_off=groups_put_off(view, groups, outcomes) if view.put_off else frozenset(),
        unfed=tuple(sorted(retry_state.unfed)),
        served=retry_state.served,
    )


def take_over(stored: StoredLimits, retry_state: RetryState) -> Script[RunAgain]:
    """Adopt the limits that another process has stored: the batch is run again under those, from the beginning."""
    (rows,) = yield (Statement("load_record", LIMITS_KEY),)
    stored.adopt(next((Record(*row) for row in rows), None))
    retry_state.counted, retry_state.sweep_holds, retry_state.pools_over, retry_state.retired = False, False, 0, False
    return RunAgain()


def make_room(need: Needs, slot: Slot, limits: Limits, retry_state: RetryState) -> Script[RunAgain | None]:
    """Sweep first where a bounded table would overflow with rows that only a sweep can end: callers may not have swept."""
    if not retry_state.counted:
        retry_state.counted = True
        ((unended,),), ((pools,),) = yield (Statement("count_unended_holds"), Statement("count_pools"))
        over = overflow(limits, need, unended, pools)
        retry_state.sweep_holds, retry_state.pools_over = over.holds, over.pools
    if retry_state.sweep_holds:
        retry_state.sweep_holds = False
        loaded_batch = yield from gather(_sweeping(limits.max_due), slot, limits, 0, groups=())
        if loaded_batch.swept.holds:
            return (yield from sweep_first(loaded_batch, SweepList(loaded_batch.swept.holds, []), retry_state))
    if retry_state.pools_over:  # after the holds, for those may have left their pools empty
        excess, retry_state.pools_over = retry_state.pools_over, 0
        loaded_batch = yield from gather(_sweeping(1), slot, limits, excess + len(need.pools), pressed=True)
        empty = spare(loaded_batch.swept.pools, need, excess)
        if empty:
            return (yield from sweep_first(loaded_batch, SweepList([], empty, pressed=True), retry_state))
    if limits.max_holds is not None and not retry_state.retired:
        retry_state.retired = True
        return (yield from retire_first(need, slot, limits, retry_state))
    return None


def retire_first(need: Needs, slot: Slot, limits: Limits, retry_state: RetryState) -> Script[RunAgain | None]:
    """Retire the oldest ended holds whose units are consumed, where they fill the table of holds."""
    ((unended,),), ((consumed,),) = yield (Statement("count_unended_holds"), Statement("count_consumed_holds"))
    count = retirements(limits, need, unended, consumed)
    if not count:
        return None
    loaded_batch = yield from gather(_sweeping(count + len(need.holds)), slot, limits, 0, pressed=True)
    oldest = unnamed(loaded_batch.swept.retiring, need, count)
    if not oldest:
        return None
    return (yield from sweep_first(loaded_batch, SweepList([], [], pressed=True, retiring=oldest), retry_state))


def sweep_first(loaded_batch: LoadedBatch, listed: SweepList, retry_state: RetryState) -> Script[RunAgain]:
    """Sweep these and do nothing else."""
    view = View(loaded_batch.loaded)
    decide_groups(view, [Group((Sweep(limit=max(1, len(listed.holds), len(listed.retiring))),))], listed)
    retry_state.note_lines(view)
    return (yield from write_only(view))


def write_only(view: View) -> Script[RunAgain]:
    """Write what goes first, and nothing else."""
    first = yield from write_rows(view)
    return RunAgain(first.written, first.committed_row)


def _sweeping(limit: int) -> Needs:
    return Needs(set(), set(), set(), set(), limit)
