"""A batch where the tables are distributed by lane (Citus): several transactions, lane by lane.

Theory of operation. A transaction that touches one lane concerns one shard, and commits in one phase. So groups that lock one lane
share a transaction, and a group that locks several lanes is a transaction of its own, which commits in two phases (`in_doubt` says
what that means for readers). An operation id lives in a lane of its own, so that its reuse with another pool is noticed; its row
belongs to the same commit, so it may add lanes to a transaction, but it does not split groups on the same pool: a hot pool is locked
once for all of them. Groups that share a lane keep their order. Each transaction succeeds or fails alone, so each group has its own
answer or its own error.

A hold may have legs in other lanes than its own, which is seen only when it is loaded: then nothing was done (`SeveralLanes`), and the
transaction is repeated with those lanes. A sweep is divided in the same way, by the candidates that were found without locks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct, structs

from ...core.commands import Group, Sweep
from ...core.lanes import lane_of_hold, lane_of_operation, lane_of_pool, lane_of_record
from ...core.model import Key, StoredHold
from ...core.needs import Needs, needs
from ...core.outcomes import Done, Outcome, Position
from ...errors import HoldkitError
from ..port import Applied
from .loading import GrowingBatch, SeveralLanes
from .script import ScriptResult
from .sweeping import SweepCandidates


class BatchPart(Struct, frozen=True):
    """The part of a batch that one transaction does."""

    groups: Sequence[Group]
    lanes: tuple[int, ...] = ()
    """The lanes that it will touch, if they are known beforehand; not used where the tables are on one server."""
    several_lanes: bool = False
    """Whether it may touch more than one."""
    candidates: SweepCandidates | None = None
    """The candidates of a sweep."""
    growing: GrowingBatch | None = None
    """The batch that these groups belong to, if more groups may be added to it."""


Transact: TypeAlias = Callable[[BatchPart], ScriptResult]
"""Run one transaction, with retries."""
FindSweep: TypeAlias = Callable[[int], tuple[SweepCandidates, set[int]]]
"""Return at most this number of a sweep's candidates, and the lanes that have rows to prune."""


class _GroupSet(Struct):
    """Groups, by index, that share a transaction."""

    indexes: list[int]
    home: int | None
    """The lane that all of them lock; None: it is a single group with several lanes."""
    lanes: set[int]
    sweep: Sweep | None = None
    """Set if this is a sweep, and nothing else."""


def lanes_of(groups: Sequence[Group], lanes: int) -> tuple[set[int], set[int]]:
    """Return the lanes that these groups lock, and those together with the lanes of their operation ids."""
    need = needs(groups)
    if need.sweep:
        every = set(range(lanes))
        return every, every
    locked = _locked_lanes(need, lanes)
    return locked, {*locked, *(lane_of_operation(key, lanes) for key in need.operations)}


def _locked_lanes(need: Needs, lanes: int) -> set[int]:
    pools = {lane_of_pool(key, lanes) for key in need.pools}
    holds = {lane_of_hold(key[1], lanes) for key in need.holds}
    return pools | holds | {lane_of_record(key, lanes) for key in need.records}


def split_groups(groups: Sequence[Group], lanes: int) -> list[_GroupSet]:
    """Divide the groups into sets that share a transaction, in the order in which the transactions run."""
    sets: list[_GroupSet] = []
    latest: dict[int, int] = {}  # lane → the last set that touches it
    homes: dict[int, int] = {}  # lane → the last set that locks it alone
    for index, group in enumerate(groups):
        sweep = _lone_sweep(group)
        if sweep is not None:
            sets.append(_GroupSet([index], None, set(), sweep))
            latest = dict.fromkeys(range(lanes), len(sets) - 1)
            continue
        locked, touched = lanes_of([group], lanes)
        home = next(iter(locked)) if len(locked) == 1 else None
        last = max([latest.get(lane, -1) for lane in touched])
        at = homes.get(home, -1) if home is not None else -1
        if at < last or at < 0:
            at = len(sets)
            sets.append(_GroupSet([], home, set()))
        sets[at].indexes.append(index)
        sets[at].lanes |= touched
        latest.update(dict.fromkeys(touched, at))
        if home is not None:
            homes[home] = at
    return sets


def _lone_sweep(group: Group) -> Sweep | None:
    if len(group.commands) != 1:
        return None
    (only,) = group.commands
    return only if isinstance(only, Sweep) and only.op is None else None


def apply_distributed(
    groups: Sequence[Group], lanes: int, transact: Transact, find_sweep: FindSweep, *, several_lanes: bool = False
) -> Applied:
    """Apply the groups, each set in its transaction. Raise an error only if all groups share one; else report it by group."""
    sets = split_groups(groups, lanes)
    outcomes: list[list[Outcome]] = [[] for _ in groups]
    positions: list[list[Position | None]] = [[] for _ in groups]
    skipped: dict[int, str] = {}
    failed: dict[int, HoldkitError] = {}
    later: set[int] = set()
    unfed: set[Key] = set()
    served: list[StoredHold] = []
    wrote = False
    for each in sets:
        try:
            if each.sweep is not None:
                result = _sweep(each.sweep, lanes, transact, find_sweep)
            else:
                mine = [groups[index] for index in each.indexes]
                part = BatchPart(mine, tuple(sorted(each.lanes)), several_lanes or len(each.lanes) > 1)
                result = _transact(part, transact)
        except HoldkitError as error:
            if len(sets) == 1:
                raise
            failed.update(dict.fromkeys(each.indexes, error))
            continue
        assert result.outcomes is not None
        wrote |= result.wrote
        unfed.update(result.unfed)
        served += result.served
        for at, index in enumerate(each.indexes):
            outcomes[index], positions[index] = result.outcomes[at], result.positions[at]
            if at in result.skipped_locked:
                skipped[index] = result.skipped_locked[at]
            elif at in result.put_off:
                later.add(index)
    return Applied(
        outcomes,
        None,
        wrote,
        skipped,
        failed=failed,
        put_off=frozenset(later),
        positions=positions,
        unfed=tuple(sorted(unfed)),
        served=served,
    )


def _transact(part: BatchPart, transact: Transact) -> ScriptResult:
    try:
        return transact(part)
    except SeveralLanes as found:
        lanes = tuple(sorted({*part.lanes, *found.lanes}))
        return transact(structs.replace(part, lanes=lanes, several_lanes=True))


# Sweeping


def _sweep(sweep: Sweep, lanes: int, transact: Transact, find_sweep: FindSweep) -> ScriptResult:
    """Sweep lane by lane; a hold with legs in several lanes gets a transaction of its own. If one fails, return what was swept before it,
    with `more` set: a sweep can be called again at any time."""
    candidates, stale = find_sweep(sweep.limit)
    swept: list[tuple[Done, Position | None]] = []
    wrote, more, unfed = False, candidates.more, set[Key]()
    served: list[StoredHold] = []
    for part in sweep_parts(candidates, stale, lanes, sweep.tenant):
        try:
            result = _transact(part, transact)
        except HoldkitError:
            if not swept:
                raise
            more = True
            break
        assert result.outcomes is not None
        wrote |= result.wrote
        unfed.update(result.unfed)
        served += result.served
        more |= bool(result.skipped_locked)
        answers = zip(result.outcomes[0], result.positions[0], strict=True)
        swept += [(outcome, position) for outcome, position in answers if isinstance(outcome, Done)]
    if not swept:
        return ScriptResult([[]], {0: "what is being made"}, False, positions=[[]])
    last, position = max(swept, key=lambda one: (one[0].slot, one[1].seq if one[1] else 0))
    more |= any(done.more for done, _ in swept)
    expired = {key for done, _ in swept for key in done.swept}
    in_order = tuple(key for key in candidates.holds if key in expired)
    done = structs.replace(last, swept=in_order, more=more)
    return ScriptResult([[done]], {}, wrote, positions=[[position]], unfed=frozenset(unfed), served=tuple(served))


def sweep_parts(candidates: SweepCandidates, stale: set[int], lanes: int, tenant: str) -> list[BatchPart]:
    """Return the transactions of a sweep: at least one, because there is always something to prune."""
    by_lanes: dict[tuple[int, ...], SweepCandidates] = {}
    wide: list[tuple[tuple[int, ...], SweepCandidates]] = []
    for retiring, holds in ((False, candidates.holds), (True, candidates.retiring)):
        for key, pools in holds.items():
            touched = {lane_of_hold(key[1], lanes), *(lane_of_pool((key[0], pool), lanes) for pool in pools)}
            in_order = tuple(sorted(touched))
            its = _nothing() if len(in_order) > 1 else by_lanes.setdefault(in_order, _nothing())
            (its.retiring if retiring else its.holds)[key] = pools
            if len(in_order) > 1:
                wide.append((in_order, its))
    for pool in candidates.pools:
        by_lanes.setdefault((lane_of_pool(pool, lanes),), _nothing()).pools.append(pool)
    lines: dict[int, list[Key]] = {}
    for pool in candidates.lines:
        lines.setdefault(lane_of_pool(pool, lanes), []).append(pool)
    for lane, theirs in lines.items():
        by_lanes[lane,] = by_lanes.get((lane,), _nothing())._replace(lines=theirs)
    for lane in sorted(stale) or ([] if by_lanes or wide else [0]):
        by_lanes.setdefault((lane,), _nothing())
    return [
        BatchPart([Group((_sweep_of(its, tenant),))], touched, len(touched) > 1, its)
        for touched, its in (*by_lanes.items(), *wide)
    ]


def _sweep_of(its: SweepCandidates, tenant: str) -> Sweep:
    return Sweep(limit=max(1, len(its.holds), len(its.retiring)), tenant=tenant)


def _nothing() -> SweepCandidates:
    return SweepCandidates({}, [], False, {})
