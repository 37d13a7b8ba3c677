"""Loading: what a batch needs, in as few statements as possible.

Asks for pools, holds, operations and records by key, the due legs of these pools and the holds behind them, and nothing
else: a due hold's other pools are never touched. The front of a line is asked for only where a loaded pool has one, tallies only
where a command or a loaded hold names an account. Decides nothing and writes nothing.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, cast

from msgspec import Struct

from ...core.bounds import Limits
from ...core.commands import Group
from ...core.decide import NOTHING_DUE, SweepList
from ...core.erased_names import ErasedNames
from ...core.hold_columns import hold_of
from ...core.ladders.finding import prunable
from ...core.ladders.lines import SKIPPED
from ...core.ladders.retiring import Keeping, kept_for
from ...core.limits import LIMITS_KEY
from ...core.line_loading import lines_to_load
from ...core.model import MAX_SLOT, Key, Pool, Record, RecordKey, Slot, StoredHold
from ...core.needs import Needs, tallies_of
from ...core.outcomes import Operation
from ...core.outstanding import Tally, TallyKey
from ...core.table_bounds import portion
from ...core.trees import parent_of
from ...core.view import NOBODY, Counts, DueLeg, FrontOfLine, Loaded, LoadLine
from .driver import Row, Script, Statement
from .rows import BESIDE_HOLD, BESIDE_POOL, keys_json, operation_of, pool_of

EMPTY_POOLS = 100
"""How many empty on-demand pools one sweep removes."""
FED_LINES = 100
"""How many lines one sweep feeds, besides those of the pools on which it returns units."""


class LimitsChanged(Exception):
    """Other limits are stored than those that a batch was to be decided under. Nothing more was loaded: adopt them, and begin again."""


class LoadedBatch(Struct):
    """What was loaded for one batch, under the limits that are stored, and what pruning needs to know."""

    loaded: Loaded
    swept: SweepList
    due: dict[Key, list[DueLeg]]
    oldest_operation: Slot | None
    oldest_ended: Slot | None


class Rows(Struct):
    """What was loaded so far."""

    pools: dict[Key, Pool] = {}
    holds: dict[Key, StoredHold] = {}
    operations: dict[Key, Operation] = {}
    records: dict[RecordKey, Record] = {}
    first_deadlines: dict[Key, Slot] = {}
    floors: dict[str, int] = {}
    horizon: Slot = 0
    """The latest slot at which a command can be decided: that of the clock, or of a pool."""
    due: dict[Key, list[DueLeg]] = {}
    has_lines: bool = False
    """Whether a hold waits at any of these pools."""
    has_accounts: bool = False
    """Whether any of these holds has an account."""

    def add(self, name: str, rows: list[Row]) -> None:
        """Add the rows of one statement."""
        if name in _POOLS:
            for row in rows:
                pool = pool_of(row)
                key = (pool.tenant, pool.id)
                self.pools[key] = pool
                (first_deadline,) = row[BESIDE_POOL]
                if first_deadline is not None:
                    self.first_deadlines[key] = first_deadline
        elif name in _HOLDS:
            self.add_holds(map(hold_of, rows))
        elif name in _OPERATIONS:
            for operation in map(operation_of, rows):
                self.operations[operation.tenant, operation.id] = operation
        elif name == "load_record":
            for record in itertools.starmap(Record, rows):
                self.records[record.key] = record
        elif name == "load_floor":
            self.floors.update(rows)

    def add_holds(self, holds: Iterable[StoredHold]) -> None:
        """Add holds."""
        for hold in holds:
            self.holds[hold.tenant, hold.id] = hold
            if hold.account is not None:
                self.has_accounts = True


_POOLS = frozenset({"load_pool", "load_pools"})
_HOLDS = frozenset({"load_hold", "load_holds"})
_OPERATIONS = frozenset({"load_operation", "load_operations"})


_HEAD = Statement("load_head")
_UNCOUNTED = Counts()


def by_keys(one: str, many: str, keys: Collection[Key]) -> list[Statement]:
    """Return one statement per tenant: a plain lookup for a single key, `json_each` for several."""
    if len(keys) == 1:  # a lone caller should not pay for many
        return [Statement(one, key) for key in keys]
    tenants: dict[str, list[str]] = {}
    for tenant, name in keys:
        tenants.setdefault(tenant, []).append(name)
    return [
        Statement(one, (tenant, names[0])) if len(names) == 1 else Statement(many, (tenant, keys_json(names)))
        for tenant, names in tenants.items()
    ]


class Head(NamedTuple):
    """The row of `load_head`."""

    last_seq: int | None
    oldest_operation: Slot | None
    oldest_ended: Slot | None
    limits_version: int | None


def load_named(rows: Rows, need: Needs) -> Script[Head]:
    """Load what a batch names itself."""
    first = [_HEAD, *by_keys("load_pool", "load_pools", need.pools), *by_keys("load_hold", "load_holds", need.holds)]
    if need.operations:
        first += by_keys("load_operation", "load_operations", need.operations)
    if need.records:
        first += [Statement("load_record", key) for key in need.records]
    if need.created:
        first += [Statement("load_floor", (tenant,)) for tenant in {key[0] for key in need.created}]
    answers = yield tuple(first)
    for statement, answer in zip(first, answers, strict=True):
        if answer:
            rows.add(statement.name, answer)
    ((head,), *_) = answers
    return Head(*head)


def gather(
    need: Needs,
    slot: Slot,
    limits: Limits,
    empty_pools: int = EMPTY_POOLS,
    *,
    pressed: bool = False,
    groups: Sequence[Group] | None = None,
    may_offer: bool = True,
    names: ErasedNames | None = None,
    importing: bool = False,
) -> Script[LoadedBatch]:
    """Load everything that `need` names; for these groups the lines of the pools too, without groups none. Raise `LimitsChanged` if
    other limits are stored than these; not while `importing`, which stores limits itself."""
    rows = Rows()
    head = yield from load_named(rows, need)
    if (head.limits_version or 0) != limits.version and not importing:
        raise LimitsChanged
    if need.standing and rows.holds:
        yield from load_pools_of(rows, need.standing, limits, slot)
    swept = NOTHING_DUE
    if need.sweep:
        touched = rows.first_deadlines.copy()
        swept = yield from list_sweep(rows, need.sweep, slot, limits, empty_pools=empty_pools, pressed=pressed)
        rows.first_deadlines = touched  # a sweep returns the legs of its holds, not of their pools
    counts = yield from count(limits, slot, everything=LIMITS_KEY in need.records)
    yield from load_due(rows, slot, limits.max_due + 1)
    line = yield from load_lines(rows, groups, limits, swept)
    tallies = yield from load_tallies(rows, need, names)
    loaded = Loaded(
        slot=slot,
        next_seq=(head.last_seq or 0) + 1,
        pools=rows.pools,
        holds=rows.holds,
        operations=rows.operations,
        records=rows.records,
        due=defaultdict(list, rows.due).__getitem__,
        horizon=rows.horizon,
        limits=limits,
        fence_floors=rows.floors,
        counts=counts,
        tallies=tallies,
        line=line,
        may_offer=may_offer,
        names=names,
    )
    return LoadedBatch(loaded, swept, rows.due, head.oldest_operation, head.oldest_ended)


def list_sweep(
    rows: Rows, limit: int, slot: Slot, limits: Limits, empty_pools: int, pressed: bool
) -> Script[SweepList]:
    """Return the holds with due legs anywhere, up to the legs that one transaction may return, the pools that may go, and those whose
    lines could be fed."""
    rested = MAX_SLOT if pressed else slot - limits.retention
    retiring, more_retiring = yield from list_retiring(rows, limit, slot, limits, pressed)
    holds, waiting, *lists = yield (
        Statement("load_sweep", (slot, limit + 1)),
        Statement("load_waiting_pools", (slot, SKIPPED, FED_LINES)),
        Statement("load_empty_pools", (empty_pools,)),
        Statement("load_rested_pools", (rested, empty_pools)),
        Statement("load_closed_pools", (slot, empty_pools)),
    )
    retention = 0 if pressed else limits.retention
    idle = [pool_of(row) for pools in lists for row in pools]
    idle = sorted(idle, key=lambda pool: (pool.idle_from(retention) or 0, pool.tenant, pool.id))[:empty_pools]
    due = [hold_of(row) for row in holds]
    listed, more = portion(((hold.key, len(hold.open_legs())) for hold in due), limit, limits.max_due)
    rows.add_holds(due[: len(listed)])
    yield from load_pools_of(rows, [*listed, *retiring], limits, slot)
    lines = [pool_of(row) for row in waiting]
    rows.pools = {**{pool.key: pool for pool in (*idle, *lines)}, **rows.pools}
    parents = {(pool.tenant, parent) for pool in idle if (parent := parent_of(pool.id)) is not None}
    yield from load_pools(rows, parents)  # they count their children
    return SweepList(
        holds=listed,
        pools=[pool.key for pool in idle],
        more=more or more_retiring,
        pressed=pressed,
        retiring=retiring,
        lines=[pool.key for pool in lines],
    )


def list_retiring(rows: Rows, limit: int, slot: Slot, limits: Limits, pressed: bool) -> Script[tuple[list[Key], bool]]:
    """List ended holds whose units are consumed, and whose time is over or that must make room; and say whether there are more."""
    rules = (Keeping.WINDOW, Keeping.CONSUMED)
    spans = [kept_for(rule, limits) for rule in rules]
    answers = yield tuple(
        Statement("load_retiring", (int(rule), MAX_SLOT if pressed else slot - span, limit + 1))
        for rule, span in zip(rules, spans, strict=True)
    )
    leaving: list[tuple[Slot, StoredHold]] = []
    for span, answer in zip(spans, answers, strict=True):
        for row in answer:
            (kept_from,) = row[BESIDE_HOLD]
            leaving.append((kept_from + span, hold_of(row)))
    holds = [hold for _, hold in sorted(leaving, key=lambda each: (each[0], each[1].id, each[1].tenant))]
    # when room is needed, no bound on legs: the holds that the batch names are left out later
    max_legs = MAX_SLOT if pressed else limits.max_due
    listed, more = portion(((hold.key, len(hold.pools)) for hold in holds), limit, max_legs)
    rows.add_holds(holds[: len(listed)])
    return listed, more


def load_pools_of(rows: Rows, holds: Iterable[Key], limits: Limits, slot: Slot) -> Script[None]:
    """Load the pools of these holds; a hold that may be pruned touches none, as in the core's own `touched`."""
    loaded = [rows.holds[key] for key in holds if key in rows.holds]
    alive = [hold for hold in loaded if not prunable(hold, limits, slot)]
    yield from load_pools(rows, {(hold.tenant, name) for hold in alive for name in hold.pools})


def load_pools(rows: Rows, keys: set[Key]) -> Script[None]:
    """Load those of these pools that are not loaded yet."""
    wanted = keys - rows.pools.keys()
    if not wanted:
        return
    statements = by_keys("load_pool", "load_pools", wanted)
    answers = yield tuple(statements)
    for answer in answers:
        rows.add("load_pools", answer)


def load_due(rows: Rows, slot: Slot, limit: int) -> Script[None]:
    """Load the legs due by the latest slot of the loaded pools, and the holds behind them.

    Loads at most `limit` of the legs that are due by a pool's own time, because a backlog goes first. Loads all that only another pool's
    later clock makes due, because these cannot go first.
    """
    horizon = slot
    for pool in rows.pools.values():
        if pool.slot > horizon:
            horizon = pool.slot
        if pool.waiting:
            rows.has_lines = True
    rows.horizon = horizon
    if not rows.first_deadlines or min(rows.first_deadlines.values()) > horizon:
        return
    keys = sorted(key for key, deadline in rows.first_deadlines.items() if deadline <= horizon)
    statements = []
    for key in keys:
        own = max(slot, rows.pools[key].slot)
        statements.append(Statement("load_due", (*key, -1, own, limit)))
        statements.append(Statement("load_due", (*key, own, horizon, -1)))
    answers = yield tuple(statements)
    due = {key: [*answers[2 * index], *answers[2 * index + 1]] for index, key in enumerate(keys)}
    rows.due = cast(dict[Key, list[DueLeg]], due)
    yield from load_holds(rows, {(key[0], hold) for key, legs in due.items() for _, hold in legs})


def load_holds(rows: Rows, keys: set[Key]) -> Script[None]:
    """Load those of these holds that are not loaded yet."""
    wanted = keys - rows.holds.keys()
    if not wanted:
        return
    answers = yield tuple(by_keys("load_hold", "load_holds", wanted))
    for answer in answers:
        rows.add("load_holds", answer)


def load_lines(rows: Rows, groups: Sequence[Group] | None, limits: Limits, swept: SweepList) -> Script[LoadLine | None]:
    """Load the front of the lines at the loaded pools, and the holds that wait there; None if no hold waits."""
    if groups is None or not rows.has_lines:
        return None
    ending = [rows.holds[key] for key in swept.holds]
    wanted = lines_to_load(groups, rows.pools, rows.holds, rows.due, limits=limits, ending=ending)
    answers = yield tuple(Statement("load_line", (*key, load.most, load.limit + 1)) for key, load in wanted.items())
    fronts: dict[Key, FrontOfLine] = {}
    for (key, load), answer in zip(wanted.items(), answers, strict=True):
        fronts[key] = FrontOfLine([hold for (hold,) in answer[: load.limit]], len(answer) > load.limit)
    yield from load_holds(rows, {(key[0], hold) for key, front in fronts.items() for hold in front.holds})
    return lambda pool: fronts.get(pool, NOBODY)


def load_tallies(rows: Rows, need: Needs, names: ErasedNames | None) -> Script[dict[TallyKey, Tally]]:
    """Load the tallies that the batch may change, in one statement per tenant."""
    if not (need.tallies or rows.has_accounts or need.accounts):
        return {}
    tenants: dict[str, list[tuple[str, str]]] = {}
    for tenant, pool, account in {*need.tallies, *tallies_of(rows.holds.values(), names, need.accounts)}:
        tenants.setdefault(tenant, []).append((pool, account))
    answers = yield tuple(Statement("load_tallies", (tenant, keys_json(keys))) for tenant, keys in tenants.items())
    return {
        (tenant, pool, account): Tally(account, used, loose)
        for answer in answers
        for tenant, pool, account, used, loose in answer
    }


def count(limits: Limits, slot: Slot, *, everything: bool) -> Script[Counts]:
    """Return how full the bounded tables are; each costs a scan, so only where a bound is set, or (`everything`) may be set by this
    batch."""
    statements: dict[str, Statement] = {}
    if everything or limits.max_pools is not None:
        statements["pools"] = Statement("count_pools")
    if everything or limits.max_holds is not None:
        statements["live_holds"] = Statement("count_live_holds", (slot,))
    if everything or limits.max_operations is not None:
        statements["operations"] = Statement("count_operations", (slot,))
    if not statements:
        return _UNCOUNTED
    answers = yield tuple(statements.values())
    return Counts(**{table: number for table, ((number,),) in zip(statements, answers, strict=True)})
