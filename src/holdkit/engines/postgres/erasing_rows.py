"""Erasure on PostgreSQL: the transaction in which the shared job (`engines.erase_job`) reads and writes.

Theory of operation. Every transaction that rewrites entries first updates the setting `rewrites`, and so locks its row. So the transactions
of erasures run one after the other, and a transaction that stores a value computed from entries (a seal) can compare that setting under its
lock. Then the transaction locks pools, in the usual order, then holds: no other transaction adds an entry about them until it ends. If
callers' transactions have left unnumbered entries about one of the holds, these are numbered first; that locks the heads of their lanes,
behind all other locks, as everywhere. A statement of its own looks up the seals after the entries are rewritten.

An attempt that fails is repeated, even if the connection is lost during COMMIT: to rewrite an entry twice does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from ...core.baseline import RowKey
from ...core.codec import decode_entry, decode_outcome, encode_entry
from ...core.hold_columns import hold_of
from ...core.lanes import lane_of_operation, lane_of_pool, lane_of_record
from ...core.model import Pool, Record, RecordKey, StoredHold
from ...core.outcomes import Operation
from ...core.reading import JournalRow
from ...core.seals import Seal, encode_salts, seal_of
from ..archiving import archived_checksum, row_checksum
from ..erasing import Rewrites, resealed, with_totals
from .archive_reading import PostgresBaseline, archived_of
from .compact_entries import WHOLE, compact, journal_row
from .connections import PipelineConnection
from .database import BatchOptions
from .driver import BEGIN, COMMIT, ROLLBACK, Row, Script, Statement
from .encoding import checksum
from .journal_rows import JOURNAL_COLUMNS, number_left_over
from .rows import (
    ERASED_HOLD_COLUMNS,
    OperationRow,
    columns,
    erased_hold_row,
    hold_keys,
    leg_rows,
    operation_checksum,
    operation_of,
    pool_keys,
    pool_of,
    record_keys,
    record_of,
    record_row,
    tally_key,
    tally_keys,
    tally_of,
)
from .statements import split_by_lane

T = TypeVar("T")

LABELLED: Final = '"label":'
"""Text that the entry of a claim's pool contains."""
PER_STATEMENT: Final = 1_000
"""Rows that one statement reads or writes."""
LONG: Final = 1_000
"""A transaction over more holds than this runs without timeouts."""
_encode: Final = msgspec.json.Encoder().encode


class PostgresRows:
    """An open transaction that rewrites rows."""

    def __init__(self, connection: PipelineConnection, options: BatchOptions) -> None:
        self._connection, self._options = connection, options
        self._locked: dict[str, Pool | None] = {}
        """Pools by id; None: the pool does not exist."""
        self._fetch(BEGIN, ("set_lock_timeout", (options.wait_ms,)), ("count_rewrite", ()))

    def _fetch(self, *statements: Statement) -> list[list[Row]]:
        """Run one exchange; with distributed tables, lane by lane."""
        if self._options.distributed:
            return self._connection.run(split_by_lane(_all(statements), range(self._options.lanes), writing=True))
        return self._connection.execute(statements)

    # Locking

    def lock(self, tenant: str, pools: Sequence[str], holds: Sequence[str]) -> None:
        """Lock the pools in one statement, in the usual order; then the holds."""
        if len(holds) > LONG:
            self._fetch(("disable_timeouts", ()))
        wanted = {*pools}
        for part in _parts(holds):
            for row in self._fetch(("read_entries_about", (tenant, part, LABELLED)))[0]:
                effects = decode_entry(journal_row(row).text).effects
                wanted.update(one.pool.id for one in effects if one.pool.label is not None)
        keys = hold_keys([(tenant, id) for id in holds], self._options.lanes)
        if holds and self._options.distributed:
            wanted.update(pool for _, pool, *_ in self._fetch(("find_pools_of_holds", keys))[0])
        named = pool_keys([(tenant, id) for id in sorted(wanted)], self._options.lanes)
        if holds and not self._options.distributed:
            found = self._fetch(("lock_pools_of_holds_waiting", (*named, *keys)), ("lock_holds_waiting", keys))[0]
        else:
            locks: list[Statement] = [("lock_pools_waiting", named)]
            found = self._fetch(*locks, *([("lock_holds_waiting", keys)] if holds else []))[0]
        self._locked.update(dict.fromkeys(wanted))
        self._locked.update({pool.id: pool for pool in map(pool_of, found)})

    def _number(self, tenant: str, subjects: Sequence[str]) -> None:
        """Number the entries about these subjects that callers' transactions have left unnumbered."""
        lanes = sorted({lane for (lane,) in self._fetch(("find_unnumbered_about", (tenant, subjects)))[0]})
        if not lanes:
            return
        if self._options.distributed:
            for lane in lanes:
                script = _within(number_left_over(lane, self._options))
                self._connection.run(split_by_lane(script, (lane,), writing=True))
            return
        none: list[Any] = []
        self._fetch(
            ("lock_heads", (lanes, self._options.wait_ms)),
            ("write_journal_with_unnumbered", (lanes, [0] * len(lanes), *(none,) * JOURNAL_COLUMNS)),
        )

    # Reading

    def entries_about(self, tenant: str, subjects: Sequence[str]) -> list[JournalRow]:
        """Return every entry about these subjects."""
        found: list[JournalRow] = []
        for part in _parts(subjects):
            self._number(tenant, part)
            found += map(journal_row, self._fetch(("read_entries_about", (tenant, part, None)))[0])
        return sorted(found, key=lambda row: (row.lane, row.seq))

    def entries_at(self, rows: Sequence[JournalRow]) -> list[JournalRow]:
        """Read these entries again."""
        found: list[JournalRow] = []
        for part in _parts(rows):
            keys = ([row.lane for row in part], [row.seq for row in part])
            found += map(journal_row, self._fetch(("read_entries", keys))[0])
        return sorted(found, key=lambda row: (row.lane, row.seq))

    def holds(self, tenant: str, ids: Sequence[str]) -> list[StoredHold]:
        """Return which of these holds are stored."""
        lanes = self._options.lanes
        return [
            hold_of(row)
            for part in _parts(ids)
            for row in self._fetch(("load_holds", hold_keys([(tenant, id) for id in part], lanes)))[0]
        ]

    def pools(self, tenant: str, ids: Sequence[str]) -> list[Pool]:
        """Lock the stored ones among these pools, and return them."""
        new = sorted(id for id in ids if self._locked.get(id) is None)  # a missing pool may have been created since
        if new:
            self.lock(tenant, new, ())
        return [pool for id in ids if (pool := self._locked[id]) is not None]

    def uses(self, tenant: str, account: str, pools: Sequence[str]) -> bool:
        """Return whether an account uses any units of these pools."""
        keys = [(tenant, pool, account) for pool in pools]
        return any(self._fetch(("load_tallies", tally_keys(part, self._options.lanes)))[0] for part in _parts(keys))

    def operations(self, tenant: str, after: str, limit: int) -> list[Operation]:
        """Return recorded answers that are stored whole, in order of lane and id."""
        lanes = self._options.lanes
        lane = lane_of_operation((tenant, after), lanes) if after else -1
        rows = [OperationRow(*row) for row in self._fetch(("lock_whole_operations", (tenant, lane, after, limit)))[0]]
        rows.sort(key=lambda row: (lane_of_operation((row.tenant, row.id), lanes), row.id))
        return [operation_of(row, decode_outcome(row.outcome)) for row in rows[:limit] if row.outcome is not None]

    def baseline(self, lane: int, keys: Sequence[RowKey]) -> Mapping[RowKey, str]:
        """Return which of these rows a lane's baseline has."""
        return {key: row.body for key, row in self._baseline(lane).load(keys).items()}

    def _baseline(self, lane: int) -> PostgresBaseline:
        return PostgresBaseline(lambda name, parameters: self._fetch((name, parameters))[0], lane)

    def records(self, keys: Sequence[RecordKey]) -> list[Record]:
        """Lock the stored ones among these records, and return them."""
        wanted = sorted(keys, key=lambda key: (lane_of_record(key, self._options.lanes), key))
        return [
            record_of(row)
            for part in _parts(wanted)
            for row in self._fetch(("lock_records_waiting", record_keys(part, self._options.lanes)))[0]
        ]

    # Writing

    def write(self, done: Rewrites) -> None:
        """Replace these rows, and commit."""
        if done.empty:
            self._fetch(ROLLBACK)
            return
        if done.baseline or done.baseline_gone:
            lanes = [archived_of(row) for row in self._fetch(("read_archived", ()))[0]]
            done = with_totals(done, lanes, self._baseline)
        for part in _parts([self._entry_row(row, entry) for row, entry in done.entries]):
            self._fetch(("rewrite_entries", (*columns(part, 5 + len(WHOLE)), len(part), True)))
        statements = [*self._rows(done), *self._tallies(done), *self._salts(done), *_baseline(done)]
        self._fetch(*statements, COMMIT)

    def _entry_row(self, row: JournalRow, entry: Any) -> Row:
        text, its = (None if self._options.distributed else compact(entry)) or (encode_entry(entry).encode(), WHOLE)
        return (row.lane, row.seq, text, checksum(text), *its, entry.subject)

    def _rows(self, done: Rewrites) -> Iterator[Statement]:
        lanes = self._options.lanes
        for holds in _parts(done.holds):
            yield "rewrite_holds", columns([erased_hold_row(hold, lanes) for hold in holds], ERASED_HOLD_COLUMNS)
            if done.account is not None:
                legs = [(*key, values[3]) for hold in holds for key, values in leg_rows(hold, lanes).items()]
                yield "rewrite_legs", columns(legs, 6)
        for pools in _parts(done.pools):
            named = [(lane_of_pool(one.key, lanes), *one.key, one.label, one.entity) for one in pools]
            yield "rewrite_pools", columns(named, 5)
        if done.renamed:
            renamed = [
                (lane_of_pool(one.key, lanes), one.tenant, before, one.id, one.label, one.entity)
                for before, one in done.renamed
            ]
            yield "rename_legs", columns([row[:4] for row in renamed], 4)
            yield "rename_pools", columns(renamed, 6)
        answers: list[Row] = []
        for one in done.operations:
            outcome = _encode(one.outcome)
            crc = operation_checksum(one.tenant, one.id, one.fingerprint, one.until, outcome)
            answers.append((lane_of_operation((one.tenant, one.id), lanes), one.tenant, one.id, outcome, crc))
        if answers:
            yield "rewrite_operations", columns(answers, 5)
        for records in _parts(done.records):
            yield (
                "update_records",
                (*columns([(*record_row(one, lanes), one.version) for one in records], 8), len(records), True),
            )

    def _tallies(self, done: Rewrites) -> list[Statement]:
        """Return the statements that add an account's tallies to those under its stub."""
        if done.account is None or not done.account_pools:
            return []
        (tenant, account, stub), lanes = done.account, self._options.lanes
        keys = [(tenant, pool, name) for pool in done.account_pools for name in (account, stub)]
        found = dict(map(tally_of, self._fetch(("load_tallies", tally_keys(keys, lanes)))[0]))
        merged: dict[str, tuple[int, int]] = {}
        for (_, pool, _), tally in found.items():
            used, loose = merged.get(pool, (0, 0))
            merged[pool] = (used + tally.used, loose + tally.loose)
        old = [(*tally_key(key, lanes), tally.used, tally.loose) for key, tally in sorted(found.items())]
        new = [(*tally_key((tenant, pool, stub), lanes), *sums) for pool, sums in sorted(merged.items())]
        if not old:
            return []
        return [
            ("delete_tallies", (*columns(old, 6), len(old), True)),
            ("insert_tallies", (*columns(new, 6), len(new), True)),
        ]

    def _salts(self, done: Rewrites) -> list[Statement]:
        seals: dict[tuple[int, int], Seal] = {}
        for part in _parts([*done.entries, *done.archived]):
            keys = ([row.lane for row, _ in part], [row.seq for row, _ in part])
            found = map(seal_of, self._fetch(("find_seals_over", keys))[0])
            seals.update({(seal.lane, seal.first): seal for seal in found})

        def find(row: JournalRow) -> Seal | None:
            return next(
                (one for one in seals.values() if one.lane == row.lane and one.first <= row.seq <= one.last), None
            )

        rows = [(seal.lane, seal.first, encode_salts(seal.salts)) for seal in (resealed(done, find) if seals else ())]
        return [("rewrite_salts", columns(rows, 3))] if rows else []


def _baseline(done: Rewrites) -> Iterator[Statement]:
    """Yield the statements that change the baseline, lane by lane."""
    for lane in sorted({lane for lane, _ in done.baseline_gone}):
        for gone in _parts([key for its, key in done.baseline_gone if its == lane]):
            yield "delete_baseline", (lane, *columns(gone, 4))
    for lane in sorted({lane for lane, *_ in done.baseline}):
        rows = [(*key, body, row_checksum(lane, key, body)) for its, key, body in done.baseline if its == lane]
        for put in _parts(rows):
            yield "put_baseline", (lane, *columns(put, 6))
    for one in done.lanes:
        yield "put_archived", (*structs.astuple(one), archived_checksum(one))


def _all(statements: Sequence[Statement]) -> Script[list[list[Row]]]:
    return (yield tuple(statements))


def _within(script: Script[None]) -> Script[None]:
    """Run a script inside an open transaction, without its BEGIN and COMMIT."""
    statements = next(script)
    try:
        while True:
            rest = [one for one in statements if one not in (BEGIN, COMMIT)]
            answers = iter((yield tuple(rest)) if rest else [])
            statements = script.send([[] if one in (BEGIN, COMMIT) else next(answers) for one in statements])
    except StopIteration:
        return


def _parts(whole: Sequence[T]) -> Iterator[Sequence[T]]:
    return (whole[at : at + PER_STATEMENT] for at in range(0, len(whole), PER_STATEMENT))
