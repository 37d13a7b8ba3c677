"""Loading: lock the rows that a batch names, then read them, in one round trip.

Other round trips follow only if legs are due, locks were missed, a hold waits at a pool, or a hold has an account. Rows that others have
locked are skipped, unless the batch waits for locks: a command that needs one is left out of the batch, so that a slow caller's transaction
stops only the users of its pools. Nothing is decided or written here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from msgspec import Struct, structs

from ...core.commands import Group
from ...core.decide import NOTHING_DUE, SweepList
from ...core.ladders.finding import prunable
from ...core.lanes import lane_of_hold, lane_of_pool
from ...core.line_loading import ToLoad, lines_to_load
from ...core.model import Key, RecordKey, Slot
from ...core.needs import Needs, needs, tallies_of
from ...core.view import NOBODY, Counts, DueLeg, FrontOfLine, Loaded, LoadLine
from ..clocks import steady
from ..port import AddLate
from .database import BatchOptions, Database
from .driver import BEGIN, Row, Script, Statement
from .known_lines import covers
from .loaded_rows import FirstRound, LoadedRows, LoadPlan
from .rows import columns, hold_keys, pool_keys, record_keys, tally_keys
from .sweeping import NO_CANDIDATES, SweepCandidates, locked_candidates


class SeveralLanes(Exception):
    """A transaction that was to touch one lane needs others too, `lanes` among them: nothing was done."""

    def __init__(self, lanes: set[int]) -> None:
        super().__init__(f"needs {len(lanes)} lanes")
        self.lanes = lanes


class LoadedBatch(Struct, kw_only=True):
    """What was loaded for one batch."""

    loaded: Loaded
    first: FirstRound
    swept: SweepList
    due: dict[Key, list[DueLeg]]
    """Due legs of the pools that commands touch. (`first` has those of all pools that were loaded.)"""
    stamps: dict[Key, int]
    locked_by_others: set[Key | RecordKey]
    """Pools and records."""
    has_unnumbered_entries: bool
    """Whether entries of callers' transactions may wait for their journal numbers, in any lane."""
    locked_at: float
    """When the pools were locked, by `steady`: read after the answer, so that waits for locks do not count."""


def load_batch(
    need: Needs,
    candidates: SweepCandidates,
    options: BatchOptions,
    groups: Sequence[Group] | None,
    *,
    begun: float | None = None,
) -> Script[LoadedBatch]:
    """Begin the transaction, unless its pools are locked since `begun`; lock and load everything that `need` names. `groups` are the groups
    to decide; None: nothing is decided, so neither lines nor the tallies of these holds are loaded."""
    rows, sweeping = LoadedRows(), candidates is not NO_CANDIDATES
    plan = _plan(need, candidates, options)
    begin = begin_statements(options) if begun is None else []
    if options.several_lanes and plan.standing:
        pools = yield from _pools_of(plan.standing, begin, options)
        plan, begin = structs.replace(plan, pools=sorted({*plan.pools, *pools}), standing=[]), []
    statements = (*begin, *plan.statements(options), *_front_statements(plan.lines, options))
    answers = iter((yield statements)[len(begin) :])
    locked_at = steady() if begun is None else begun
    first = rows.load_first_round(plan, answers)
    slot = first.latest
    yield from _load_answers(rows, slot, options)
    touched = {*need.pools, *rows.pools_of(need.standing, options.limits, slot)}
    wanted = {*plan.pools, *touched, *rows.pools_of({*candidates.holds, *candidates.retiring}, options.limits, slot)}
    _check_lanes(wanted, plan.holds, options)
    horizon = yield from _load_later_due(rows, first, options)
    due = {
        pool: legs for pool, legs in first.due.items() if pool in touched
    }  # a sweep returns the legs of its holds alone
    locked = yield from _find_locked(wanted - rows.pools.keys(), need.records - rows.records.keys(), options)
    locked |= yield from _load_due_holds(rows, due, options)
    counts = (yield from _count(options)) if options.bounded or (plan.records and need.changes_limits) else Counts()
    rows.drop_pools(locked)
    swept = locked_candidates(candidates, rows.holds, rows.pools, locked, options) if sweeping else NOTHING_DUE
    lines = LoadedLines(None, set())
    if groups is not None and (rows.has_lines or rows.has_accounts or need.accounts or options.lines):
        batch = LineBatch(groups, need, due=due, swept=swept, expected=plan.lines, answers=list(answers))
        lines = yield from _load_lines(rows, batch, options)
        rows.drop_pools(lines.locked_by_others)
    loaded = Loaded(slot, 1, pools=rows.pools, holds=rows.holds, operations=rows.operations, records=rows.records, horizon=horizon,
                    due=defaultdict(list, due).__getitem__, limits=options.limits, fence_floors=first.fence_floors, counts=counts,
                    tallies=rows.tallies, line=lines.line, may_offer=not options.in_caller_transaction, names=options.names)  # fmt: skip
    # A caller's transaction that marked a due hold expired may have committed since then: its entry goes first.
    unnumbered = first.has_unnumbered_entries or bool(due) or options.several_lanes
    return LoadedBatch(loaded=loaded, first=first, swept=swept, due=due, stamps=rows.stamps, locked_at=locked_at,
                       locked_by_others=locked | lines.locked_by_others, has_unnumbered_entries=unnumbered)  # fmt: skip


def _plan(need: Needs, candidates: SweepCandidates, options: BatchOptions) -> LoadPlan:
    sweeping = candidates is not NO_CANDIDATES
    pools = need.pools | candidates.named if sweeping else need.pools
    standing = sorted({*need.standing, *candidates.holds, *candidates.retiring})
    in_advance = options.lines if options.wait_for_locks and not sweeping else None
    lines = in_advance.expected(pools, standing) if in_advance else {}
    return LoadPlan(
        pools=sorted({*pools, *lines}),
        standing=standing,
        holds=standing if options.assume_new else sorted({*need.holds, *standing}),
        operations=sorted(need.asked if options.assume_new else need.operations),
        records=sorted(need.records),
        tallies=sorted(need.tallies),
        created=sorted(need.created),
        lines=lines,
    )


def begin_statements(options: BatchOptions) -> list[Statement]:
    """Return the statements that begin a transaction."""
    return [BEGIN] if options.lock_timeout is None else [BEGIN, ("set_lock_timeout", (options.lock_timeout,))]


def _pools_of(holds: list[Key], begin: list[Statement], options: BatchOptions) -> Script[list[Key]]:
    """Return the pools of these holds, so that they can be locked in order of lane. Used where a statement has one lane."""
    *_, rows = yield (*begin, ("find_pools_of_holds", hold_keys(holds, options.lanes)))
    return [(tenant, pool) for tenant, pool, *_ in rows]


def _check_lanes(pools: Iterable[Key], holds: Iterable[Key], options: BatchOptions) -> None:
    """Raise `SeveralLanes` if a transaction that may touch one lane alone needs several."""
    if not options.distributed or options.several_lanes:
        return
    lanes = options.lanes
    found = {lane_of_pool(key, lanes) for key in pools} | {lane_of_hold(key[1], lanes) for key in holds}
    if len(found) > 1:
        raise SeveralLanes(found)


def _load_answers(rows: LoadedRows, slot: Slot, options: BatchOptions) -> Script[None]:
    """Load the entries behind recorded answers: only a retry needs them, so it costs the others no statement."""
    if not rows.references:
        return
    entries = [
        (lane_of_hold(row.hold, options.lanes), row.tenant, row.hold, row.id, row.slot, number)
        for number, row in enumerate(rows.references)
        if row.hold is not None
    ]
    keys = columns(entries, 6)
    archived = [] if options.distributed else [("load_archived_holds", keys)]  # nothing is archived there
    answers = yield (*archived, ("load_answers", keys))
    rows.load_answers([row for answer in answers for row in answer], slot)


def _find_locked(pools: set[Key], records: set[RecordKey], options: BatchOptions) -> Script[set[Key | RecordKey]]:
    """Return the rows that exist among those that were not locked: another transaction has them locked, or has just inserted them."""
    if not pools and not records:
        return set()
    found_pools, found_records = yield (("find_pools", pool_keys(sorted(pools), options.lanes)),
                                        ("find_records", record_keys(sorted(records), options.lanes)))  # fmt: skip
    return {*map(tuple, found_pools), *map(tuple, found_records)}


def _load_later_due(rows: LoadedRows, first: FirstRound, options: BatchOptions) -> Script[Slot]:
    """Return the latest slot of any pool, at which a command over several pools is decided. Add the legs that come due by then, beyond a
    pool's own slot, to the due legs."""
    horizon = max([first.latest, *(pool.slot for pool in rows.pools.values())])
    if horizon <= first.earliest or len(rows.pools) < 2:
        return horizon
    (later,) = yield (("load_later_due", (*pool_keys(sorted(rows.pools), options.lanes), first.earliest, horizon)),)
    known = {
        (*pool, *leg) for pool, legs in first.due.items() for leg in legs
    }  # of lanes that were read by a later clock
    for tenant, pool, deadline, hold in sorted({*later} - known):
        first.due.setdefault((tenant, pool), []).append((deadline, hold))
    return horizon


def _load_due_holds(
    rows: LoadedRows, due: dict[Key, list[DueLeg]], options: BatchOptions
) -> Script[set[Key | RecordKey]]:
    """Lock and load the holds of due legs: a transaction that has other pools of such a hold may be marking it expired right now.

    Return the pools with a due leg whose hold another transaction has locked: they count as locked themselves.
    """
    if not due:
        return set()
    holds = sorted({(pool[0], hold) for pool, legs in due.items() for _, hold in legs})
    (locked,) = yield (_lock_holds(due, holds, options),)
    missed = rows.load_locked(holds, locked)
    return {pool for pool, legs in due.items() if any((pool[0], hold) in missed for _, hold in legs)}


def _lock_holds(pools: Iterable[Key], holds: list[Key], options: BatchOptions) -> Statement:
    _check_lanes(pools, holds, options)
    return "lock_holds_waiting" if options.wait_for_locks else "lock_holds", hold_keys(holds, options.lanes)


class LineBatch(NamedTuple):
    """The batch for which lines are loaded."""

    groups: Sequence[Group]
    need: Needs
    due: dict[Key, list[DueLeg]]
    swept: SweepList
    expected: Mapping[Key, ToLoad]
    """The lines that were loaded in advance, by `_front_statements`."""
    answers: list[list[Row]]


class LoadedLines(NamedTuple):
    """The lines of a batch."""

    line: LoadLine | None
    """None: no hold waits at any loaded pool."""
    locked_by_others: set[Key]
    """Pools whose lines have a hold that another transaction has locked."""


def _load_lines(rows: LoadedRows, batch: LineBatch, options: BatchOptions) -> Script[LoadedLines]:
    """Load the front of each line at these pools, with its holds locked, and the tallies that move with the holds that may end.

    That takes one round trip: two if a statement has one lane, because these holds may be in any, and none if the lines were loaded in
    advance.

    A hold that waits has one leg, so every transaction that changes it has locked the pool of its line first. Hence no other transaction
    has these rows locked, and they do not change until we commit. They are locked all the same, so that this rests on one lock order and
    not on every writer. No other transaction waits for them, so they may be locked after the due holds without another lock order becoming
    possible.
    """
    groups, need, due, swept, expected, answers = batch
    if options.lines is not None:
        options.lines.learn(rows.pools, rows.holds.values(), groups)
    ending = [hold for key in swept.holds if (hold := rows.holds.get(key)) is not None]
    tallies = tallies_of(rows.holds.values(), options.names, need.accounts) - rows.tallies.keys()
    wanted = lines_to_load(groups, rows.pools, rows.holds, due, options.limits, ending)
    of_accounts = (("load_tallies", tally_keys(sorted(tallies), options.lanes)),) if tallies else ()
    if not wanted:
        rows.load_tallies((yield of_accounts) if of_accounts else [])
        return LoadedLines(None, set())
    keys = sorted(wanted)
    if covers(expected, wanted):
        answers = [*answers, *((yield of_accounts) if of_accounts else [])]
    else:
        answers = yield (*_front_statements(wanted, options), *of_accounts)
    places = answers.pop(0)
    of_lines = None if options.distributed else answers.pop(0)
    rows.load_tallies(answers)
    lines: dict[Key, list[str]] = {key: [] for key in keys}
    for tenant, pool, _, hold in sorted(places, key=itemgetter(2)):
        if (tenant, pool) in lines:
            lines[tenant, pool].append(hold)
    front = {key: FrontOfLine(ids[: wanted[key].limit], len(ids) > wanted[key].limit) for key, ids in lines.items()}
    holds = sorted({(key[0], hold) for key, line in front.items() for hold in line.holds})
    if holds and of_lines is None:
        (of_lines,) = yield (_lock_holds(keys, holds, options),)
    missed = rows.load_locked(holds, of_lines or ())
    locked = {key for key, line in front.items() if any((key[0], hold) in missed for hold in line.holds)}
    return LoadedLines(lambda pool: front.get(pool, NOBODY), locked)


def _front_statements(wanted: Mapping[Key, ToLoad], options: BatchOptions) -> list[Statement]:
    """Return the statements that load the front of these lines and lock its holds. Where a statement has one lane, they do not lock."""
    if not wanted:
        return []
    keys = sorted(wanted)
    counts = [wanted[key].limit + 1 for key in keys], [wanted[key].most for key in keys]
    fronts = (*pool_keys(keys, options.lanes), *counts)
    if options.distributed:
        return [("load_lines", fronts)]
    lock = "lock_lines_waiting" if options.wait_for_locks else "lock_lines"
    return [("load_lines", fronts), (lock, (*fronts, options.lanes))]


def _count(options: BatchOptions) -> Script[Counts]:
    """Count the rows of the limited tables. Each count is a scan, and others count at the same time: a limit here is not exact."""
    (((pools,),), ((holds,),), ((operations,),)) = yield (
        ("count_pools", ()),
        ("count_live_holds", (options.slot,)),
        ("count_operations", (options.slot,)),
    )
    return Counts(pools, holds, operations)


def find_skipped(groups: Sequence[Group], batch_rows: LoadedBatch) -> dict[int, str]:
    """Return the groups that need a row which another transaction has locked, each with the first such key."""
    found: dict[int, str] = {}
    loaded = batch_rows.loaded
    for index, group in enumerate(groups):
        need = needs([group], loaded.names)
        pools: list[Key] = sorted(need.pools)
        for key in sorted(need.standing):
            hold = loaded.holds.get(key)
            if hold is not None and not prunable(hold, loaded.limits, loaded.slot):
                pools += [(hold.tenant, name) for name in hold.pools]
        locked = [each for each in (*pools, *sorted(need.records)) if each in batch_rows.locked_by_others]
        if locked:
            found[index] = "/".join(locked[0])
    return found


class GrowingBatch:
    """A batch that waits for its pools and, once it has locked them, takes in other groups that want these pools: once, even if the
    transaction is repeated. The clock and everything else is read after that, so that no command is decided at a time before it came."""

    def __init__(self, groups: Sequence[Group], add_late: AddLate, database: Database) -> None:
        self.groups = list(groups)
        """All groups: those that were added come last."""
        self._add_late: AddLate | None = add_late
        self.database = database

    def wait_for_pools(self, need: Needs, options: BatchOptions) -> Script[float | None]:
        """Begin, wait for the pools, and add the groups that need no others. Return when they were locked; None if nothing was done,
        because the batch does not grow."""
        add_late, self._add_late = self._add_late, None
        if add_late is None or need.standing or need.records or need.sweep:  # more locks, which come first in the order
            return None
        keys = pool_keys(sorted(need.pools), options.lanes)
        yield (*begin_statements(options), ("lock_pools_waiting", keys))
        locked_at = steady()
        self.groups += add_late(lambda group: _fits(needs([group], options.names), need))
        return locked_at


def _fits(theirs: Needs, ours: Needs) -> bool:
    return theirs.pools <= ours.pools and not theirs.standing and not theirs.records and not theirs.sweep
