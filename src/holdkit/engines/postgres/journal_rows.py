"""The rows of the journal: entries divided by lane, their numbers, and the positions that answers carry.

Theory of operation. Each lane has its own sequence of entries, numbered from 1 without a gap and in the order in which transactions commit:
a transaction takes its numbers from the lane's head row, last of all, and holds that row's lock until it ends. So a follower with one
position per lane cannot miss an entry.

*Lanes.* Everything about a pool is in the pool's lane, in order, so that each lane folds by itself. A hold's own change is in its home
lane. Where the hold has pools in other lanes, each of these gets a *part*: the same entry with the pools of that lane and without the hold.

*Callers' transactions* take no numbers, because an open one would then hold up its lane. They leave their entries in the table
`unnumbered`, each with a stamp that is greater than those of all earlier transactions on the same pools. The next transaction that takes
numbers in the lane moves them into the journal first, in order of stamp. On one server that is one statement
(`write_journal_with_unnumbered`). With distributed tables no statement can do both, so each step is its own (`number_distributed`), which
costs another round trip if a caller has left any entries.

*Positions.* An answer contains the position of its entry in the journal, which is known only when the heads are locked. While it decides a
batch, the core numbers the entries of the batch (`View.numbers`); afterwards each outcome gets its lane and number. The answer remembered
for a retry is written before the numbers are known, so the position of a replayed answer is looked up.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Final

import msgspec
from msgspec import structs

from ...core.commands import Group
from ...core.entries import Action, Effect, Entry
from ...core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from ...core.limits import subject_of
from ...core.outcomes import Done, Outcome, Position
from ...core.view import View
from .compact_entries import WHOLE, compact
from .database import BatchOptions
from .driver import BEGIN, COMMIT, Row, Script, Statement
from .encoding import checksum
from .rows import Columns, columns, is_id

_encode: Final = msgspec.json.Encoder().encode
_POOL_ACTIONS: Final = frozenset(action for action in Action if action.startswith("pool."))
_NUMBERING: Final = ("write_journal", "take_numbers")
"""Statements that return, per lane, the last number before those of this batch."""


class JournalRows:
    """Rows of the journal before they have numbers."""

    def __init__(self, *, whole: bool = False) -> None:
        """`whole`: no entry is made compact."""
        self._whole = whole
        self.rows: list[Row] = []
        """Lane, position among the batch's rows in this lane (from 1), tenant, subject, text, checksum, and the columns of a compact
        entry."""
        self.homes: list[int] = []
        """For each entry: the index of the row in its home lane."""
        self.counts: dict[int, int] = {}
        """The number of rows for each lane."""

    def add(self, lane: int, entry: Entry) -> None:
        """Append one row."""
        self.counts[lane] = n = self.counts.get(lane, 0) + 1
        text, its = (None if self._whole else compact(entry)) or (_encode(entry), WHOLE)
        self.rows.append((lane, n, entry.tenant, entry.subject, text, checksum(text), *its))

    @property
    def columns(self) -> Columns:
        """The columns for `write_journal`."""
        return columns(self.rows, JOURNAL_COLUMNS)

    @property
    def whole_columns(self) -> Columns:
        """The columns for `write_unnumbered`, which takes whole entries."""
        assert self._whole
        return self.columns[:WHOLE_COLUMNS]


WHOLE_COLUMNS: Final = 6
JOURNAL_COLUMNS: Final = WHOLE_COLUMNS + len(WHOLE)


def home_of(entry: Entry, lanes: int) -> int:
    """Return the lane of an entry's subject."""
    if entry.hold is not None or entry.change is not None:  # by far the most frequent
        return lane_of_hold(entry.subject, lanes)
    if entry.record is not None:
        return lane_of_record(entry.record.key, lanes)
    pools = entry.action in _POOL_ACTIONS or (entry.refused is not None and not is_id(entry.subject))
    if pools or entry.action is Action.JOURNAL_BASELINE:
        return lane_of_pool((entry.tenant, entry.subject), lanes)
    return lane_of_hold(entry.subject, lanes)


def journal_rows(entries: Sequence[Entry], lanes: int, *, whole: bool = False) -> JournalRows:
    """Return the rows of these entries, in order. An entry is divided if it touches several lanes, and compact where possible unless all
    are `whole`."""
    rows = JournalRows(whole=whole)
    for entry in entries:
        home = home_of(entry, lanes)
        rows.homes.append(len(rows.rows))
        for effect in entry.effects:
            if lane_of_pool((effect.pool.tenant, effect.pool.id), lanes) != home:
                _divide(rows, entry, home, lanes)
                break
        else:
            rows.add(home, entry)
    return rows


def _divide(rows: JournalRows, entry: Entry, home: int, lanes: int) -> None:
    by_lane: dict[int, list[Effect]] = {} if entry.part else {home: []}  # a part came from elsewhere, and has no home
    for effect in entry.effects:
        by_lane.setdefault(lane_of_pool(effect.pool.key, lanes), []).append(effect)
    if not entry.part:
        rows.add(home, structs.replace(entry, effects=tuple(by_lane.pop(home))))
    for lane, effects in sorted(by_lane.items()):
        rows.add(lane, structs.replace(entry, effects=tuple(effects), hold=None, change=None, part=True))


# Numbers, where the tables are distributed


def number_distributed(
    statements: Sequence[Statement],
    floors: Sequence[Statement],
    rows: JournalRows,
    unnumbered: bool,
    options: BatchOptions,
) -> Script[list[Statement]]:
    """Take numbers and write the entries after these statements. If entries must be read first, send the statements with that read. Return
    the statements that remain to be sent."""
    touched = sorted(rows.counts)
    heads = [*_lock_heads(touched, options, first=unnumbered or bool(floors)), *floors]
    if not unnumbered:
        return [*statements, *heads, *_write_entries(rows, [])]
    *_, left = yield (*statements, *heads, ("take_unnumbered", (touched,)))
    return _write_entries(rows, left)


def number_left_over(lane: int, options: BatchOptions) -> Script[None]:
    """Number the entries that callers' transactions have left in a lane, because the next transaction there may come much later."""
    *_, left = yield (BEGIN, *_lock_heads([lane], options, first=True), ("take_unnumbered", ([lane],)))
    yield (*(_write_entries(JournalRows(whole=True), left) if left else ()), COMMIT)


def _lock_heads(lanes: list[int], options: BatchOptions, first: bool) -> list[Statement]:
    """Return the statements that lock these heads. They always wait, because a transaction that has a head locked is about to commit. A
    single head is locked when its numbers are taken, unless `first`: something must be read or written under its lock before."""
    statements: list[Statement] = []
    if not options.wait_for_locks:
        statements.append(("set_lock_timeout", (options.wait_ms,)))
    return [*statements, ("lock_lane_heads", (lanes,))] if first or len(lanes) > 1 else statements


def _write_entries(rows: JournalRows, left: Sequence[Row]) -> list[Statement]:
    by_lane: dict[int, list[tuple[Any, ...]]] = {
        lane: [] for lane in sorted({*rows.counts, *(lane for lane, *_ in left)})
    }
    for lane, _, _, _, tenant, subject, body, crc in sorted(left, key=lambda row: row[:4]):
        by_lane[lane].append((tenant, subject, body.encode(), crc))
    for lane, _, *entry in (
        row[:WHOLE_COLUMNS] for row in rows.rows
    ):  # each lane's rows come in order of their numbers
        by_lane[lane].append(tuple(entry))
    entries = [
        (lane, len(its) - index, *entry) for lane, its in by_lane.items() for index, entry in enumerate(its, start=1)
    ]
    lanes = list(by_lane)
    counts = [[len(its) for its in by_lane.values()], [rows.counts.get(lane, 0) for lane in lanes]]
    return [("take_numbers", (lanes, *counts)), ("write_entries", columns(entries, WHOLE_COLUMNS))]


# Positions


def entry_positions(rows: JournalRows, statements: Sequence[Statement], answers: Sequence[list[Row]]) -> list[Position]:
    """Return the position of each entry of the batch; none in a caller's transaction, where entries have no numbers yet."""
    for (name, _), heads in zip(statements, answers, strict=False):
        if name.startswith(_NUMBERING):
            before = {lane: seq for lane, seq, *_ in heads}
            homes = map(rows.rows.__getitem__, rows.homes)
            return [Position(lane, before[lane] + number) for lane, number, *_ in homes]
    return []


def positions_of(
    outcomes: Sequence[Sequence[Outcome]], numbers: Sequence[int], entries: Sequence[Position], found: Sequence[Row]
) -> list[list[Position | None]]:
    """Return the position of each outcome. A written entry is found by `numbers` (its number in the batch, from 1; 0: none), a replayed
    answer by the rows of `find_positions`."""
    known: dict[int, Position] = {number: Position(lane, seq) for number, lane, seq in found}
    for n, number in enumerate(numbers):
        if number and entries:
            known[n] = entries[number - 1]
    each = count()
    return [[known.get(next(each)) for _ in group] for group in outcomes]


def find_replayed(
    groups: Sequence[Group], outcomes: Sequence[Sequence[Outcome]], view: View, lanes: int
) -> list[Statement]:
    """Return the statement that finds the entries of replayed answers, if there are any."""
    rows: list[Row] = []
    answered = [
        pair
        for group, answers in zip(groups, outcomes, strict=True)
        for pair in zip(group.commands, answers, strict=False)
    ]
    for n, (command, outcome) in enumerate(answered):
        if (
            isinstance(outcome, Done)
            and outcome.replayed
            and not view.numbers[n]
            and (command.tenant, command.op) in view.loaded.operations
        ):
            subject = _subject(outcome, command.tenant, lanes)
            if subject is not None:
                rows.append((subject[0], command.tenant, subject[1], command.op, outcome.slot, n))
    return [("find_positions", columns(rows, 6))] if rows else []


def _subject(done: Done, tenant: str, lanes: int) -> tuple[int, str] | None:
    """Return lane and subject of the entry behind an answer."""
    if done.hold is not None:
        return lane_of_hold(done.hold.id, lanes), done.hold.id
    if done.pool is not None:
        return lane_of_pool((tenant, done.pool.id), lanes), done.pool.id
    if done.record is not None:
        return lane_of_record(done.record.key, lanes), subject_of(done.record)
    return None
