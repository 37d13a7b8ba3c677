"""Audit: folding the journal must rebuild exactly the stored rows. Reports every difference; changes nothing.

Theory of operation. The entries are folded one by one. Each table is then compared by merging two sorted streams, row by
row, so neither the journal nor the folded state has to fit in memory. The order:

1. the journal: numbers without gaps, each effect starts from the pool's last state, each change from the hold's;
2. fence floors; then pools, holds and records: row by row, field by field. While the folded holds are read, their outstanding legs are stored;
3. legs: those of the folded holds against the stored ones;
4. each stored pool against the sum of its stored legs, and against what the folded holds have consumed of it (`pool_agrees`:
   everything that must be true of a pool is checked there); each tally against what the account's folded holds use.

A sum over holds that a check of pools needs is stored in a table of `Folded`, as the legs are: the pools may not fit in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct, structs

from ..errors import PromiseBroken, plain
from .audit_rows import (
    Difference,
    Folded,
    Found,
    Mismatches,
    StoredRows,
    row_name,
)
from .audit_sums import (
    aligned,
    check_pools,
    check_tallies,
    compare_floors,
    compare_legs,
    filing_pools,
    filing_tallies,
    filing_units,
)
from .bounds import Limits
from .entries import Action, Change, Effect, Entry
from .fold import fold
from .ladders.finding import prunable
from .limits import LIMITS_KEY, journaled, was_bounded
from .model import Key, Pool, Slot, StoredHold
from .outstanding import Tally
from .view import View

K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")
W = TypeVar("W")

Numbered: TypeAlias = tuple[int, Entry]
"""An entry, and its number in the journal."""


def audit(
    entries: Iterable[Numbered | Difference],
    stored: StoredRows,
    created: Limits,
    now: Slot,
    folded: Folded | None = None,
    mismatches: Mismatches | None = None,
) -> Iterator[Difference]:
    """Fold the entries and compare, table by table. `Difference`s among the entries are faults that their reader found. A caller
    that needs the folded state, or the rows that differ, passes an empty `folded` and `mismatches`. The limits are
    those with which the data was `created`: the journal contains their changes."""
    folded = Folded() if folded is None else folded
    wrong = Mismatches() if mismatches is None else mismatches
    yield from _fold_all(entries, folded)
    folded.latest = latest = max(now, folded.latest)
    changed = folded.records.get(LIMITS_KEY)
    limits = journaled(created, changed)
    pruning = _Pruning(limits, was_bounded(limits, changed), latest)
    yield from compare_floors(stored, folded, wrong)
    yield from _compare("pools", stored.each_pool(), filing_pools(folded), wrong.pools)
    yield from _compare("holds", stored.each_hold(), filing_units(folded), wrong.holds, pruning.excuse)
    yield from _compare("records", stored.each_record(), folded.records.items(), wrong.records)
    yield from _compare("tallies", stored.each_tally(), filing_tallies(folded), wrong.tallies)
    yield from compare_legs(stored, folded, wrong)
    yield from check_pools(stored, folded, wrong)
    yield from check_tallies(stored, folded, wrong)


def _fold_all(entries: Iterable[Numbered | Difference], folded: Folded) -> Iterator[Difference]:
    expected_seq: int | None = None
    latest = folded.latest
    for numbered in entries:
        if isinstance(numbered, Difference):
            yield numbered
            continue
        seq, entry = numbered
        if expected_seq is not None and seq != expected_seq:
            yield Difference("journal", str(seq), "seq", str(seq), str(expected_seq))
        expected_seq = seq + 1
        latest = max(latest, entry.slot)
        yield from counters_agree(folded, entry, seq)
        if entry.change is not None:
            yield from _change_agrees(folded, entry, entry.change, seq)
        try:
            fold(folded, entry)
        except PromiseBroken as broken:
            yield Difference("journal", str(seq), "subject", entry.subject, plain(broken))
        folded.last_seq, folded.latest = seq, latest


def counters_agree(folded: Folded | View, entry: Entry, seq: int = 0) -> Iterator[Difference]:
    """Check that each effect starts from the pool's last state, which an effect before it in the entry may have made: that detects a
    changed or lost entry."""
    if entry.action in (Action.JOURNAL_BASELINE, Action.POOL_REPAIRED):
        return
    made: dict[Key, Pool] = {}
    for effect in entry.effects:
        pool = effect.pool
        before = made.get(pool.key) or folded.pools.get(pool.key)
        made[pool.key] = pool
        was_of = _NO_POOL if before is None else before
        own_loose = 0 if effect.tally is not None else effect.loose
        for field, was, says in (
            ("total", was_of.total, pool.total - effect.total),
            ("held", was_of.held, pool.held - effect.held),
            ("consumed", was_of.consumed, pool.consumed - effect.consumed),
            ("loose", was_of.loose, pool.loose - own_loose),
            ("waiting", was_of.waiting, pool.waiting - effect.waiting),
            ("children", was_of.children, pool.children - effect.children),
            ("version", was_of.version, pool.version - 1),
            *_tally_before(folded, effect),
            *(() if before is None else _kept(before, pool, entry)),
        ):
            if was != says:
                where = f"{seq} ({row_name(pool.key)})"
                yield Difference("journal", where, f"{field} before", str(says), str(was))


_NO_POOL: Final = Pool("", "", 0, version=0)


def _kept(before: Pool, pool: Pool, entry: Entry) -> Iterator[tuple[str, int, int]]:
    """Yield the numbers that an entry must leave as they were, or only raise."""
    yield "floor", before.floor, pool.floor
    yield "slot", before.slot, min(before.slot, pool.slot)
    if not entry.action.grants:
        yield "fence", before.fence, pool.fence
    elif entry.hold is not None and len(entry.hold.legs) == 1 and not entry.hold.above:
        yield "fence", before.fence, pool.fence - 1
    else:  # one more than the highest of several pools, some of them in other lanes
        yield "fence", before.fence, min(before.fence, pool.fence - 1)


def _change_agrees(folded: Folded, entry: Entry, change: Change, seq: int) -> Iterator[Difference]:
    """Check that each change starts from the hold's last state. (A hold that does not exist is reported by the fold.)"""
    hold = folded.holds.get((entry.tenant, entry.subject))
    if hold is None:
        return
    inherits = entry.action in (Action.HOLD_RELEASED, Action.HOLD_EXPIRED)
    for field, was, says in (
        *((field, getattr(hold, field), says) for field, says in change.before.items()),
        ("version", hold.version, change.version - 1),
        ("legs", [(leg.pool, leg.quantity) for leg in hold.legs], [(leg.pool, leg.quantity) for leg in change.legs]),
        ("entity", hold.entity, change.entity if inherits else hold.entity),
        (
            "correlation_id",
            hold.correlation_id,
            entry.correlation_id if entry.action is Action.HOLD_EXPIRED else hold.correlation_id,
        ),
    ):
        if was != says:
            where = f"{seq} (hold {row_name(hold.key)})"
            yield Difference("journal", where, f"{field} before", str(says), str(was))


def _tally_before(folded: Folded | View, effect: Effect) -> Iterator[tuple[str, int, int]]:
    """Yield each number of the tally that an effect changes: as it was, and as it was by the effect."""
    after = effect.tally
    if after is not None:
        before = folded.tallies.get((*effect.pool.key, after.account)) or Tally(after.account, 0)
        yield "used", before.used, after.used - effect.used
        yield "loose of the account", before.loose, after.loose - effect.loose


Excuse: TypeAlias = Callable[[V | None, V | None], tuple[V | None, V | None]]
"""What remains to be compared of two rows; nothing of rows that may be missing."""


def _compare(
    table: str,
    stored: Iterator[Found[Any, V]],
    expected: Iterator[tuple[Any, V]],
    wrong: dict[Any, tuple[V | None, V | None]],
    excuse: Excuse[V] | None = None,
) -> Iterator[Difference]:
    for key, mine, found, theirs in aligned(stored, expected):
        if mine == theirs and not found:
            continue
        left = (mine, theirs) if excuse is None else excuse(mine, theirs)
        if mine is not None or found or left != (None, None):
            wrong[key] = mine, theirs
        yield from found
        yield from _differences(table, row_name(key), *left)


def _differences(table: str, name: str, mine: Any, theirs: Any) -> Iterator[Difference]:
    if mine is None and theirs is None:
        return
    if mine is None or theirs is None:
        yield Difference(table, name, "row", "missing" if mine is None else "there",
                         "there" if mine is None else "missing")  # fmt: skip
        return
    for field, value in structs.asdict(mine).items():
        if value != getattr(theirs, field):
            yield Difference(table, name, field, repr(value), repr(getattr(theirs, field)))


class _Pruning(Struct, frozen=True):
    """The holds that may be missing, and those that must not exist."""

    limits: Limits
    bounded: bool  # now, or at any time before
    now: Slot

    def excuse(self, mine: StoredHold | None, theirs: StoredHold | None) -> tuple[StoredHold | None, StoredHold | None]:
        """Return what remains to compare: a prunable hold may be stored or not. If the table is or was bounded, ended
        holds are dropped early, except those whose units are consumed: dropping those writes an entry."""
        limits, now = self.limits, self.now
        if theirs is not None and prunable(theirs, limits, now):
            theirs = None
        may_leave = self.bounded and theirs is not None and not theirs.live and not theirs.consumes
        if mine is None and may_leave:
            theirs = None
        if mine is not None and theirs is None and prunable(mine, limits, now):
            mine = None
        return mine, theirs
