"""Lanes apart: where the tables are distributed by lane, a batch is several transactions, lane by lane.

Groups that are about one lane share a transaction, which is one shard's affair and commits in one phase; unless an operation
id among them lives in another lane, for that row belongs to the same commit. A group about several lanes is a transaction of
its own. Groups that share a lane keep their order. What one transaction came to says nothing of the others: each group has
its own answer or its own error. A sweep is cut up in the same way, by what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, structs

from ...core.commands import Group, Sweep
from ...core.decide import Needs, needs
from ...core.lanes import lane_of_hold, lane_of_operation, lane_of_pool, lane_of_record
from ...core.outcomes import Done, Outcome
from ...errors import HoldkitError
from ..port import Applied
from .batch_growth import GrowingBatch
from .loading import SeveralLanes
from .script import ScriptResult
from .sweeping import Listed


class BatchPart(Struct, frozen=True):
    """What one transaction does of a batch."""

    groups: Sequence[Group]
    lanes: tuple[int, ...] = ()
    """That it will touch, as far as it is known; where the tables are on one server nobody asks."""
    several: bool = False
    """Whether it may touch more than one."""
    listed: Listed | None = None
    """What a sweep goes by."""
    growing: GrowingBatch | None = None
    """Where more groups may come in."""


Transact = Callable[[BatchPart], ScriptResult]
LookUp = Callable[[int], tuple[Listed, set[int]]]
"""What a sweep of so many finds to do, and lanes where something is to be pruned."""


class _Part(Struct):
    """Groups, by index, that share a transaction."""

    indexes: list[int]
    home: int | None
    """The lane that all of them are about; None: it is one group's own."""
    lanes: set[int]
    sweep: Sweep | None = None
    """It is a sweep, and nothing else."""


def lanes_of(groups: Iterable[Group], lanes: int) -> tuple[set[int], set[int]]:
    """The lanes of what these groups lock, and those with the operation ids."""
    need = needs(groups)
    if need.sweep:
        every = set(range(lanes))
        return every, every
    return _locked_lanes(need, lanes), {*_locked_lanes(need, lanes), *_operation_lanes(need, lanes)}


def _locked_lanes(need: Needs, lanes: int) -> set[int]:
    pools = {lane_of_pool(key, lanes) for key in need.pools}
    holds = {lane_of_hold(key[1], lanes) for key in need.holds}
    return pools | holds | {lane_of_record(key, lanes) for key in need.records}


def _operation_lanes(need: Needs, lanes: int) -> set[int]:
    return {lane_of_operation(key, lanes) for key in need.operations}


def cut(groups: Sequence[Group], lanes: int) -> list[_Part]:
    """Who shares a transaction with whom, in the order in which they are to be done."""
    parts: list[_Part] = []
    latest: dict[int, int] = {}  # lane → the last part that touches it
    homes: dict[int, int] = {}  # lane → the last part that is about it alone
    for index, group in enumerate(groups):
        sweep = _lone_sweep(group)
        if sweep is not None:
            parts.append(_Part([index], None, set(), sweep))
            latest = dict.fromkeys(range(lanes), len(parts) - 1)
            continue
        locked, touched = lanes_of([group], lanes)
        home = next(iter(locked)) if len(locked) == 1 else None
        last = max([latest.get(lane, -1) for lane in touched])
        at = homes.get(home, -1) if home is not None else -1
        if at < last or at < 0:
            at = len(parts)
            parts.append(_Part([], home, set()))
        parts[at].indexes.append(index)
        parts[at].lanes |= touched
        latest.update(dict.fromkeys(touched, at))
        if home is not None:
            homes[home] = at
    return parts


def _lone_sweep(group: Group) -> Sweep | None:
    if len(group.commands) != 1:
        return None
    (only,) = group.commands
    return only if isinstance(only, Sweep) and only.op is None else None


def apply_distributed(
    groups: Sequence[Group], lanes: int, transact: Transact, look_up: LookUp, *, several: bool = False
) -> Applied:
    """Apply the groups, each in its transaction. An error is raised only where there was one transaction for all."""
    parts = cut(groups, lanes)
    outcomes: list[list[Outcome]] = [[] for _ in groups]
    skipped_locked: dict[int, str] = {}
    failed: dict[int, HoldkitError] = {}
    wrote = False
    for part in parts:
        try:
            if part.sweep is not None:
                ran = _sweep(part.sweep, lanes, transact, look_up)
            else:
                mine = [groups[index] for index in part.indexes]
                ran = _transact(BatchPart(mine, tuple(sorted(part.lanes)), several or len(part.lanes) > 1), transact)
        except HoldkitError as error:
            if len(parts) == 1:
                raise
            failed.update(dict.fromkeys(part.indexes, error))
            continue
        assert ran.outcomes is not None
        wrote |= ran.wrote
        for place, index in enumerate(part.indexes):
            outcomes[index] = ran.outcomes[place]
            if place in ran.skipped_locked:
                skipped_locked[index] = ran.skipped_locked[place]
    return Applied(outcomes, None, wrote, skipped_locked, failed=failed)


def _transact(share: BatchPart, transact: Transact) -> ScriptResult:
    """A hold may have legs in other lanes than its own: that is seen once it is loaded, before anything is done."""
    try:
        return transact(share)
    except SeveralLanes as found:
        lanes = tuple(sorted({*share.lanes, *found.lanes}))
        return transact(structs.replace(share, lanes=lanes, several=True))


# Sweeping


def _sweep(sweep: Sweep, lanes: int, transact: Transact, look_up: LookUp) -> ScriptResult:
    """Lane by lane; a hold with legs in several is a transaction of its own. If one fails, what was done before it is the
    answer, and there is more to do: a sweep can be called again at any time."""
    listed, stale = look_up(sweep.limit)
    swept: list[Done] = []
    wrote, more = False, listed.more
    for share in shares(listed, stale, lanes, sweep.tenant):
        try:
            ran = _transact(share, transact)
        except HoldkitError:
            if not swept:
                raise
            more = True
            break
        assert ran.outcomes is not None
        wrote |= ran.wrote
        more |= bool(ran.skipped_locked)
        swept += [outcome for outcome in ran.outcomes[0] if isinstance(outcome, Done)]
    if not swept:
        return ScriptResult([[]], {0: "what is being made"}, False)
    told = max(swept, key=lambda done: (done.slot, done.seq))
    more |= any(done.more for done in swept)
    expired = {key for done in swept for key in done.swept}
    in_order = tuple(key for key in listed.holds if key in expired)
    return ScriptResult([[structs.replace(told, swept=in_order, more=more)]], {}, wrote)


def shares(listed: Listed, stale: set[int], lanes: int, tenant: str) -> list[BatchPart]:
    """The transactions of a sweep: at least one, for there is always something to prune."""
    by_lanes: dict[tuple[int, ...], Listed] = {}
    wide: list[tuple[tuple[int, ...], Listed]] = []
    for retiring, holds in ((False, listed.holds), (True, listed.retiring)):
        for key, pools in holds.items():
            touched = tuple(sorted({lane_of_hold(key[1], lanes), *_lanes_of(key[0], pools, lanes)}))
            its = _nothing() if len(touched) > 1 else by_lanes.setdefault(touched, _nothing())
            (its.retiring if retiring else its.holds)[key] = pools
            if len(touched) > 1:
                wide.append((touched, its))
    for pool in listed.pools:
        by_lanes.setdefault((lane_of_pool(pool, lanes),), _nothing()).pools.append(pool)
    for lane in sorted(stale) or ([] if by_lanes or wide else [0]):
        by_lanes.setdefault((lane,), _nothing())
    return [
        BatchPart([Group((_sweep_of(its, tenant),))], touched, len(touched) > 1, its)
        for touched, its in (*by_lanes.items(), *wide)
    ]


def _sweep_of(its: Listed, tenant: str) -> Sweep:
    return Sweep(limit=max(1, len(its.holds), len(its.retiring)), tenant=tenant)


def _nothing() -> Listed:
    return Listed({}, [], False, {})


def _lanes_of(tenant: str, pools: Iterable[str], lanes: int) -> set[int]:
    return {lane_of_pool((tenant, pool), lanes) for pool in pools}
