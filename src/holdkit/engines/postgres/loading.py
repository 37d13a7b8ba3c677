"""Loading: lock what a batch names, then read it, in one round trip. Others follow only where legs are due, locks were missed, somebody
waits at a pool, or a hold has an account.

Rows that others have locked are skipped, unless the batch waits for locks: a command that needs one is left out of the batch, so that a
slow caller's transaction stops only those who want the same pools. Nothing is decided or written here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter

from msgspec import Struct

from ...core.commands import Group
from ...core.decide import NOTHING_DUE, SweepList
from ...core.ladders.finding import prunable
from ...core.lanes import lane_of_hold, lane_of_pool
from ...core.line_loading import ToLoad, lines_to_load
from ...core.model import Key, RecordKey, Slot
from ...core.needs import Needs, needs, tallies_of
from ...core.outstanding import TallyKey
from ...core.view import NOBODY, Counts, DueLeg, FrontOfLine, Loaded, LoadLine
from ..clocks import steady
from ..port import AddLate
from .database import BatchOptions, Database
from .driver import BEGIN, Row, Script, Statement
from .known_lines import covers
from .loaded_rows import LoadedRows
from .rows import columns, hold_keys, operation_keys, pool_keys, record_keys, tally_keys
from .sweeping import NO_CANDIDATES, SweepCandidates, locked_candidates


class SeveralLanes(Exception):
    """A transaction that was to touch one lane needs others too, `lanes` among them: nothing was done."""

    def __init__(self, lanes: set[int]) -> None:
        super().__init__(f"needs {len(lanes)} lanes")
        self.lanes = lanes


class LoadedBatch(Struct):
    """What was loaded for one batch."""

    loaded: Loaded
    swept: SweepList
    due: dict[Key, list[DueLeg]]
    """Due legs of the pools that commands touch."""
    found: dict[Key, list[DueLeg]]
    """Due legs of all pools that were loaded."""
    stamps: dict[Key, int]
    locked_by_others: set[Key | RecordKey]
    """Pools and records."""
    version: int
    """Of the limits that are stored."""
    synchronous: bool
    """Whether COMMIT waits for standbys."""
    unnumbered: bool
    """Whether entries of callers' transactions wait for their journal numbers, in any lane."""
    locked_at: float
    """When the pools were locked, by `steady`: as the answer came, so that no wait for a lock counts."""


def load_batch(
    need: Needs,
    candidates: SweepCandidates,
    options: BatchOptions,
    groups: Sequence[Group] | None,
    *,
    begun: float | None = None,
) -> Script[LoadedBatch]:
    """Begin the transaction, unless its pools are locked since `begun`; lock and load everything that `need` names. `groups` are those to be decided; None:
    nothing is decided, so neither lines nor the tallies of these holds are loaded."""
    rows = LoadedRows({}, {}, {}, {}, {}, {}, [])
    sweeping = candidates is not NO_CANDIDATES
    named = sorted(need.pools | candidates.named if sweeping else need.pools)
    standing = sorted({*need.standing, *candidates.holds, *candidates.retiring})
    holds = standing if options.assume_new else sorted({*need.holds, *standing})
    records = sorted(need.records)
    operations = sorted(need.asked if options.assume_new else need.operations)
    expected = {} if sweeping else _expected_lines(named, standing, options)
    named = sorted({*named, *expected}) if expected else named
    begin = begin_statements(options) if begun is None else []
    if options.several_lanes and standing:
        named = sorted({*named, *(yield from _pools_of(standing, begin, options))})
        begin, standing = [], []
    first = _first_statements(named, sorted(need.created), holds, standing, records, operations, need.tallies, options)
    answers = (yield (*begin, *first, *_front_statements(expected, options)))[len(begin) :]
    locked_at = steady() if begun is None else begun
    (earliest, slot), floors, unnumbered, version, synchronous, found = rows.take(
        answers, bool(records), bool(holds), bool(operations), bool(need.tallies), bool(need.created)
    )
    yield from _load_answers(rows, slot, options)
    touched = {*need.pools, *rows.pools_of(need.standing, options.limits, slot)}
    wanted = {*named, *touched, *rows.pools_of({*candidates.holds, *candidates.retiring}, options.limits, slot)}
    _check_lanes(wanted, holds, options)
    horizon = yield from _load_later_due(rows, found, earliest, slot, options)
    due = {pool: legs for pool, legs in found.items() if pool in touched}  # a sweep returns the legs of its holds alone
    locked = yield from _find_locked(wanted - rows.pools.keys(), need.records - rows.records.keys(), options)
    locked |= yield from _load_due_holds(rows, due, options)
    # A caller's transaction that marked a due hold expired may have committed since then: its entry goes first.
    unnumbered = unnumbered or bool(due) or options.several_lanes
    counts = (yield from _count(options)) if options.bounded or (records and need.changes_limits) else Counts()
    rows.drop_pools(locked)
    swept = locked_candidates(candidates, rows.holds, rows.pools, locked, options) if sweeping else NOTHING_DUE
    special = groups is not None and (rows.has_lines or rows.has_accounts or need.accounts or options.lines)
    front = (expected, answers[len(first) :])
    line = (yield from _load_lines(rows, groups or (), need, due, swept, locked, options, front)) if special else None
    loaded = Loaded(slot, 1, rows.pools, rows.holds, rows.operations, rows.records, defaultdict(list, due).__getitem__, horizon,
                    options.limits, floors, counts, rows.tallies, line, not options.in_caller_transaction, options.names)  # fmt: skip
    return LoadedBatch(loaded, swept, due, found, rows.stamps, locked, version, synchronous, unnumbered, locked_at)


def begin_statements(options: BatchOptions) -> list[Statement]:
    """How a transaction begins."""
    return [BEGIN] if options.lock_timeout is None else [BEGIN, ("set_lock_timeout", (options.lock_timeout,))]


def _pools_of(holds: list[Key], begin: list[Statement], options: BatchOptions) -> Script[list[Key]]:
    """The pools of these holds, where a statement has one lane: so that they can be locked in order of lane."""
    *_, found = yield (*begin, ("find_pools_of_holds", hold_keys(holds, options.lanes)))
    return [(row[0], row[1]) for row in found]


def _expected_lines(named: list[Key], standing: list[Key], options: BatchOptions) -> dict[Key, ToLoad]:
    """The lines that are loaded in advance."""
    return options.lines.expected(named, standing) if options.lines and options.wait_for_locks else {}


def _check_lanes(pools: Iterable[Key], holds: Iterable[Key], options: BatchOptions) -> None:
    """Where a transaction may touch one lane alone, these must be in one."""
    if not options.distributed or options.several_lanes:
        return
    lanes = options.lanes
    found = {lane_of_pool(key, lanes) for key in pools} | {lane_of_hold(key[1], lanes) for key in holds}
    if len(found) > 1:
        raise SeveralLanes(found)


def _first_statements(
    named: list[Key],
    created: list[Key],
    holds: list[Key],
    standing: list[Key],
    records: list[RecordKey],
    operations: list[Key],
    tallies: Collection[TallyKey],
    options: BatchOptions,
) -> list[Statement]:
    """Each its own statement: what is read after a lock must be read by a later snapshot than the lock's own."""
    lanes, waiting = options.lanes, "_waiting" if options.wait_for_locks else ""
    pools, of_holds = pool_keys(named, lanes), hold_keys(holds, lanes) if holds else []
    clock = (options.slot, options.limits.max_due + 1)
    statements: list[Statement] = []
    if records:
        statements.append((f"lock_records{waiting}", record_keys(records, lanes)))
    if standing:
        theirs = of_holds if standing == holds else hold_keys(standing, lanes)
        statements.append((f"lock_pools_of_holds{waiting}", (*pools, *theirs)))
        statements.append(("load_due_of_holds", (*pools, *clock, *theirs)))
    else:
        statements.append((f"lock_pools{waiting}", pools))
        statements.append(("load_due", (*pools, *clock)))
    if holds:
        statements.append(("load_holds", of_holds))
    if operations:
        statements.append(("load_operations", operation_keys(operations, lanes)))
    if tallies:
        statements.append(("load_tallies", tally_keys(sorted(tallies), lanes)))
    if created:
        homes = sorted({(lane_of_pool(key, lanes), key[0]) for key in created})
        statements.append(("load_floors", columns(homes, 2)))
    return statements


def _load_answers(rows: LoadedRows, slot: Slot, options: BatchOptions) -> Script[None]:
    """The entries behind answers that were given before: only a retry needs them, so it costs the others no statement."""
    if not rows.references:
        return
    asked = [
        (lane_of_hold(hold, options.lanes), tenant, hold, op, its_slot, n)
        for n, (tenant, op, _, _, _, its_slot, hold, _) in enumerate(rows.references)
    ]
    keys = columns(asked, 6)
    archived = [] if options.distributed else [("load_archived_holds", keys)]  # nothing is archived there
    answers = yield (*archived, ("load_answers", keys))
    rows.take_answers([row for found in answers for row in found], slot)


def _find_locked(pools: set[Key], records: set[RecordKey], options: BatchOptions) -> Script[set[Key | RecordKey]]:
    """Which rows exist of those that were not locked: another transaction has them locked, or has just inserted them."""
    if not pools and not records:
        return set()
    found, others = yield (("find_pools", pool_keys(sorted(pools), options.lanes)),
                           ("find_records", record_keys(sorted(records), options.lanes)))  # fmt: skip
    return {*((row[0], row[1]) for row in found), *((row[0], row[1], row[2]) for row in others)}


def _load_later_due(
    rows: LoadedRows, found: dict[Key, list[DueLeg]], earliest: Slot, slot: Slot, options: BatchOptions
) -> Script[Slot]:
    """A command over several pools is decided at the latest of their slots, which is returned: load what comes due by then, beyond a
    pool's own."""
    horizon = max([slot, *(pool.slot for pool in rows.pools.values())])
    if horizon <= earliest or len(rows.pools) < 2:
        return horizon
    (later,) = yield (("load_later_due", (*pool_keys(sorted(rows.pools), options.lanes), earliest, horizon)),)
    known = {(*pool, *leg) for pool, legs in found.items() for leg in legs}  # of lanes that were asked by a later clock
    for tenant, pool, deadline, hold in sorted({*later} - known):
        found.setdefault((tenant, pool), []).append((deadline, hold))
    return horizon


def _load_due_holds(
    rows: LoadedRows, due: dict[Key, list[DueLeg]], options: BatchOptions
) -> Script[set[Key | RecordKey]]:
    """Lock and load the holds of due legs: a transaction that has other pools of such a hold may be marking it expired right now.

    A pool with a due leg whose hold another transaction has locked counts as locked itself; these are returned.
    """
    if not due:
        return set()
    holds = sorted({(pool[0], hold) for pool, legs in due.items() for _, hold in legs})
    (found,) = yield (_lock_holds(due, holds, options),)
    missed = rows.take_locked(holds, found)
    return {pool for pool, legs in due.items() if any((pool[0], hold) in missed for _, hold in legs)}


def _lock_holds(pools: Iterable[Key], holds: list[Key], options: BatchOptions) -> Statement:
    _check_lanes(pools, holds, options)
    return "lock_holds_waiting" if options.wait_for_locks else "lock_holds", hold_keys(holds, options.lanes)


def _load_lines(
    rows: LoadedRows,
    groups: Sequence[Group],
    need: Needs,
    due: dict[Key, list[DueLeg]],
    swept: SweepList,
    locked: set[Key | RecordKey],
    options: BatchOptions,
    in_advance: tuple[Mapping[Key, ToLoad], Sequence[list[Row]]],
) -> Script[LoadLine | None]:
    """The front of each line at these pools, with its holds locked, in one round trip (two where a statement has one lane, because these
    holds may be in any), or none where it was loaded `in_advance`; and the tallies that move with the holds that may end.

    A hold that waits has one leg, so whoever changes it has locked the pool of its line first: these rows are locked by nobody, and what
    is read here stays true until we commit. They are locked all the same, so that this rests on one lock order and not on every writer;
    and since nobody else waits for them, they may come after the holds that are due without another order being possible.
    """
    if options.lines is not None:
        options.lines.learn(rows.pools, rows.holds.values(), groups)
    ending = [hold for key in swept.holds if (hold := rows.holds.get(key)) is not None]
    tallies = tallies_of(rows.holds.values(), options.names, need.accounts) - rows.tallies.keys()
    wanted = lines_to_load(groups, rows.pools, rows.holds, due, options.limits, ending)
    of_accounts = (("load_tallies", tally_keys(sorted(tallies), options.lanes)),) if tallies else ()
    if not wanted:
        rows.take_tallies((yield of_accounts) if of_accounts else [])
        return None
    keys = sorted(wanted)
    if covers(in_advance[0], wanted):
        more = [*in_advance[1], *((yield of_accounts) if of_accounts else [])]
    else:
        more = yield (*_front_statements(wanted, options), *of_accounts)
    places = more.pop(0)
    found = None if options.distributed else more.pop(0)
    rows.take_tallies(more)
    lines: dict[Key, list[str]] = {key: [] for key in keys}
    for tenant, pool, _, hold in sorted(places, key=itemgetter(2)):
        if (tenant, pool) in lines:
            lines[tenant, pool].append(hold)
    front = {key: FrontOfLine(ids[: wanted[key].limit], len(ids) > wanted[key].limit) for key, ids in lines.items()}
    holds = sorted({(key[0], hold) for key, line in front.items() for hold in line.holds})
    if holds and found is None:
        (found,) = yield (_lock_holds(keys, holds, options),)
    missed = rows.take_locked(holds, found or ())
    locked |= {key for key, line in front.items() if any((key[0], hold) in missed for hold in line.holds)}
    rows.drop_pools(locked)
    return lambda pool: front.get(pool, NOBODY)


def _front_statements(wanted: Mapping[Key, ToLoad], options: BatchOptions) -> list[Statement]:
    """Load the front of these lines, if any, and lock its holds (but where a statement has one lane)."""
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
    """How full the limited tables are. Each count is a scan, and others count at the same time: a limit here is not exact."""
    pools, holds, operations = yield (("count_pools", ()), ("count_live_holds", (options.slot,)),
                                      ("count_operations", (options.slot,)))  # fmt: skip
    return Counts(pools[0][0], holds[0][0], operations[0][0])


def find_skipped(groups: Sequence[Group], batch_rows: LoadedBatch) -> dict[int, str]:
    """Which groups need something that another transaction has locked, and what: the first such key of each."""
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
    """A batch that waits for its pools, and takes in others that want the same pools once it has locked them: once, whatever
    becomes of the transaction. The clock and everything else is read after that, so that no command is decided at a time before
    it came."""

    def __init__(self, groups: Sequence[Group], add_late: AddLate, database: Database) -> None:
        self.groups = list(groups)
        """All of them: those that were added come last."""
        self._add_late: AddLate | None = add_late
        self.database = database

    def wait_for_pools(self, need: Needs, options: BatchOptions) -> Script[float | None]:
        """Begin, wait for the pools, and add the groups that need no others. Gives when they were locked; None: nothing was done, the
        batch does not grow."""
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
