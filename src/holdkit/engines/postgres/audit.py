"""Verify: find every row that differs from the journal, or whose checksum or lane is wrong.

Verification reads one consistent snapshot, writes nothing, and keeps little in memory (`core.audit`). Each lane is folded by itself;
entries that have no number yet come last in their lane. Rows are read through cursors in order of their keys, across lanes. A row that
cannot be decoded is reported, and the audit continues with the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import chain
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from ...core.audit import Numbered, audit
from ...core.audit_rows import Difference, Folded, Found, LegKey, Mismatches, TenantKey, leg_name, row_name
from ...core.baseline import ArchivedLane
from ...core.bounds import Limits
from ...core.codec import decode_entry
from ...core.entries import Entry
from ...core.fold import fold
from ...core.hold_columns import hold_of, kept_row
from ...core.lanes import lane_of_hold, lane_of_operation, lane_of_pool, lane_of_record
from ...core.limits import LIMITS_KEY
from ...core.model import Key, Pool, Record, RecordKey, Slot, StoredHold
from ...core.outstanding import OpenLeg, Tally, TallyKey
from ...errors import PromiseBroken
from ..archive_files import decoded
from ..archiving import ArchivedEntries
from ..baseline_check import baseline_entries, compare_baseline
from ..progress import Meter, Progress
from ..spill import Spill
from .archive_reading import PostgresBaseline, archived_of, baseline_rows, check_archived, nothing
from .compact_entries import expand, is_compact
from .connections import PipelineConnection
from .driver import ROLLBACK, Row
from .encoding import checksum
from .hold_reading import query_one
from .rows import (
    HOLD_COLUMNS,
    POOL_COLUMNS,
    columns,
    operation_checksum,
    pool_of,
    pool_row,
    pools_row,
    record_of,
    reference_checksum,
    tally_of,
)
from .statements import split_by_lane

K = TypeVar("K", bound=tuple[Any, ...])
V = TypeVar("V")

PAGE: Final = 1_000
"""Entries read at a time."""
LONG: Final = 3_600.0
"""Seconds that one exchange may take: the server sorts a whole table before it returns the first row."""


def verify(
    connection: PipelineConnection,
    created: Limits,
    lanes: int,
    now: Slot,
    progress: Progress | None = None,
    archive: ArchivedEntries | None = None,
    *,
    distributed: bool = False,
) -> Iterator[Difference]:
    """Yield every difference, from one snapshot."""
    connection.execute((("begin_snapshot", ()), ("disable_timeouts", ())))
    try:
        with closing(Audit(connection, created, lanes, progress, archive, distributed=distributed)) as audit_of:
            yield from audit_of.differences(now)
    finally:
        if connection.usable and not connection.busy:
            connection.execute((ROLLBACK,))


class Audit:
    """One verification, in an open transaction. Until it is closed, it keeps the folded state and the rows that differ, for `repair`."""

    def __init__(
        self,
        connection: PipelineConnection,
        created: Limits,
        lanes: int,
        progress: Progress | None = None,
        archive: ArchivedEntries | None = None,
        *,
        distributed: bool = False,
    ) -> None:
        self._connection, self._created, self._lanes, self._progress = connection, created, lanes, progress
        self._distributed = distributed
        self._archive = archive
        self._archived: dict[int, ArchivedLane] = {}
        self._timeout, connection.timeout = connection.timeout, LONG
        self._spill = Spill()
        self.folded = Folded(self._spill.table)
        self.stored = StoredRows(connection, lanes)
        self.mismatches = Mismatches()

    def close(self) -> None:
        """Free memory and disk, and restore the connection's timeout."""
        self._connection.timeout = self._timeout
        self._spill.close()

    def differences(self, now: Slot) -> Iterator[Difference]:
        """Yield every difference."""
        heads = self._connection.fetch("audit_heads")
        if (lanes := [lane for lane, _ in heads]) != list(range(self._lanes)):
            yield Difference("heads", "", "lanes", str(lanes), f"0 … {self._lanes - 1}")
        ((holds,),) = self._connection.fetch("audit_size")
        meter = self.stored.meter = Meter(self._progress, sum(seq for _, seq in heads) + holds)
        for row in self._connection.fetch("read_archived"):
            yield from check_archived(row)
            archived = archived_of(row)
            self._archived[archived.lane] = archived
        yield from self._operations(meter.watch(self._connection.fetch_each("audit_operations")))
        entries = meter.over(chain.from_iterable(self._lane(lane, seq) for lane, seq in heads))
        yield from audit(_numbered(entries), self.stored, self._created, now, self.folded, self.mismatches)
        yield from self._limits_version()
        meter.finish()

    def _limits_version(self) -> Iterator[Difference]:
        """Yield a difference if the setting that every transaction reads is not the version of the journal's own record."""
        record, rows = self.folded.records.get(LIMITS_KEY), self._connection.fetch("read_limits_version")
        stored, known = next((version for (version,) in rows), 0), 0 if record is None else record.version
        if stored != known:
            self.mismatches.records.setdefault(LIMITS_KEY, (record, record))
            yield Difference("records", row_name(LIMITS_KEY), "limits_version", str(stored), str(known))

    def _lane(self, lane: int, last: int) -> Iterator[Entry | Difference]:
        """Yield a lane's entries. Yield a difference for each gap between the first and the head's number."""
        archived = self._archived.get(lane, nothing(lane))
        if archived.through:
            yield from self._left(archived)
        expected = archived.through + 1
        for row in self._pages("audit_journal", lane, slice(0, 1), (archived.through,)):
            seq, *_ = row
            where = f"{lane}/{seq}"
            yield from _unless("journal", where, "seq", seq, expected)
            expected = seq + 1
            yield from _entry(where, row)
        yield from _unless("heads", str(lane), "seq", last, expected - 1)
        for row in self._pages("audit_unnumbered", lane, slice(-3, None), (-1, -1, -1)):
            yield from _entry(f"{lane}/unnumbered", row[:-3])

    def _left(self, archived: ArchivedLane) -> Iterator[Entry | Difference]:
        """Yield the entries that stand for a lane's archived part: those of the baseline or, if the files are given, of the files."""
        rows = baseline_rows(self._connection, archived.lane)
        if self._archive is None:
            yield from baseline_entries(archived, rows)
            return
        with closing(Spill()) as spill:
            of_lane = Folded(spill.table)  # what other lanes fold to is in `self.folded` too
            for row in self._archive(archived.lane, archived.through):
                if isinstance(row, Difference):
                    yield row
                    continue
                entry = decoded(row)
                with suppress(PromiseBroken):  # reported by the fold of all lanes
                    fold(of_lane, entry)
                yield entry
            stored = PostgresBaseline(self._connection.fetch, archived.lane)
            yield from compare_baseline(archived, rows, of_lane, stored)

    def _pages(self, name: str, lane: int, position: slice, after: Row) -> Iterator[Row]:
        """Yield a lane's rows page by page, in order of the columns at `position`."""
        while True:
            rows = self._connection.fetch(name, (lane, *after, PAGE))
            yield from rows
            if len(rows) < PAGE:
                return
            after = rows[-1][position]

    def _operations(self, rows: Iterator[Row]) -> Iterator[Difference]:
        references: list[Reference] = []
        for tenant, op, fingerprint, until, outcome, slot, hold, token, crc, lane in rows:
            name = row_name((tenant, op))
            if outcome is not None:
                expected = operation_checksum(tenant, op, fingerprint, until, outcome.encode())
            else:
                expected = reference_checksum(tenant, op, fingerprint, hold, token)
                references.append(Reference(lane_of_hold(hold, self._lanes), tenant, hold, op, slot))
            yield from _unless("operations", name, "crc", crc, expected)
            yield from _unless("operations", name, "lane", lane, lane_of_operation((tenant, op), self._lanes))
            if len(references) == PAGE:
                yield from self._references(references)
                references = []
        yield from self._references(references)

    def _references(self, references: list[Reference]) -> Iterator[Difference]:
        """Yield a difference for each of these operations whose entry is missing."""
        missing = dict(enumerate(references))
        for name in ("find_positions", "find_unnumbered"):
            if missing:
                rows = columns([(*reference, number) for number, reference in missing.items()], 6)
                for number, *_ in self._fetch(name, rows):
                    missing.pop(number, None)
        for reference in missing.values():
            entry = f"an entry of hold {reference.hold} at slot {reference.slot}"
            yield Difference("operations", row_name((reference.tenant, reference.op)), "entry", "missing", entry)

    def _fetch(self, name: str, parameters: Sequence[Any]) -> list[Row]:
        """Return the rows of a statement whose keys are in several lanes; with distributed tables, lane by lane."""
        script = query_one(name, parameters)
        return self._connection.run(split_by_lane(script, range(self._lanes)) if self._distributed else script)


class Reference(NamedTuple):
    """An operation that refers to its entry, by the columns of `find_positions`."""

    lane: int
    tenant: str
    hold: str
    op: str
    slot: Slot


def _unless(table: str, key: str, field: str, stored: object, expected: object) -> tuple[Difference, ...]:
    """Return a difference, unless the values are equal."""
    return () if stored == expected else (Difference(table, key, field, str(stored), str(expected)),)


def _entry(where: str, row: Row) -> Iterator[Entry | Difference]:
    """Decode and check an entry. The fold checks a compact entry's columns: the entry must follow from the one before it."""
    tenant, subject, body, crc = row[1:5]
    yield from _unless("journal", where, "crc", crc, checksum(body.encode()))
    try:
        entry = expand(tenant, subject, body, row[5:]) if is_compact(row[5:]) else decode_entry(body)
    except msgspec.DecodeError as error:
        yield Difference("journal", where, "body", str(error), "an entry")
        return
    yield from _unless("journal", where, "tenant", tenant, entry.tenant)
    yield from _unless("journal", where, "subject", subject, entry.subject)
    yield entry


def _numbered(entries: Iterator[Entry | Difference]) -> Iterator[Numbered | Difference]:
    """Number the entries across all lanes: each lane's own numbers were checked."""
    number = 0
    for entry in entries:
        if isinstance(entry, Difference):
            yield entry
        else:
            number += 1
            yield number, entry


class StoredRows:
    """All rows, in the form that `core.audit` compares. Derived columns are checked when a row is read."""

    def __init__(self, connection: PipelineConnection, lanes: int) -> None:
        self._connection, self._lanes = connection, lanes
        self.meter = Meter(None, 0)

    def each_floor(self) -> Iterator[Found[TenantKey, int]]:
        for tenant, floor in self._connection.fetch_each("audit_floors"):
            yield (tenant,), floor, ()

    def each_pool(self) -> Iterator[Found[Key, Pool]]:
        return self.meter.watch(_last_of_each(map(self._pool, self._connection.fetch_each("audit_pools"))))

    def each_hold(self) -> Iterator[Found[Key, StoredHold]]:
        return self.meter.over(_last_of_each(map(self._hold, self._connection.fetch_each("audit_holds"))))

    def each_record(self) -> Iterator[Found[RecordKey, Record]]:
        return self.meter.watch(_last_of_each(map(self._record, self._connection.fetch_each("audit_records"))))

    def each_tally(self) -> Iterator[Found[TallyKey, Tally]]:
        return self.meter.watch(_last_of_each(map(self._tally, self._connection.fetch_each("audit_tallies"))))

    def each_leg(self) -> Iterator[Found[LegKey, OpenLeg]]:
        return self.meter.watch(_last_of_each(map(self._leg, self._connection.fetch_each("audit_legs"))))

    def _pool(self, row: Row) -> Found[Key, Pool]:
        pool = pool_of(row)
        expected = pool_row(pool, self._lanes)
        over, idle, lane, _, resting = row[POOL_COLUMNS:]
        if (lane, over, idle, resting) == (expected[0], expected[10], expected[11], expected[15]):
            return pool.key, pool, ()
        found: list[Difference] = []
        for field, stored, wanted in (("lane", lane, expected[0]), ("over", over, expected[10]),
                                      ("idle", idle, expected[11]), ("resting", resting, expected[15])):  # fmt: skip
            found += _unless("pools", row_name(pool.key), field, stored, wanted)
        return pool.key, pool, found

    def _hold(self, row: Row) -> Found[Key, StoredHold]:
        tenant, id, *_ = row
        key = tenant, id
        try:
            hold = hold_of(row)
        except msgspec.DecodeError as error:
            return key, None, _unless("holds", row_name(key), "legs", str(error), "legs")
        derived = (hold.open, lane_of_hold(hold.id, self._lanes), *pools_row(hold, self._lanes), *kept_row(hold))
        if row[HOLD_COLUMNS:] == derived:
            return key, hold, ()
        found: list[Difference] = []
        names = ("open", "lane", "pools", "pool_lanes", "kept", "kept_from")
        for field, stored, wanted in zip(names, row[HOLD_COLUMNS:], derived, strict=True):
            found += _unless("holds", row_name(key), field, stored, wanted)
        return key, hold, found

    def _record(self, row: Row) -> Found[RecordKey, Record]:
        record, (*_, stored) = record_of(row), row
        lane = lane_of_record(record.key, self._lanes)
        return record.key, record, _unless("records", row_name(record.key), "lane", stored, lane)

    def _leg(self, row: Row) -> Found[LegKey, OpenLeg]:
        tenant, pool, deadline, hold, units, waiting, number, account, lane = row
        expected = lane_of_pool((tenant, pool), self._lanes)
        found = () if lane == expected else _unless("legs", leg_name(tenant, pool, hold), "lane", lane, expected)
        return (tenant, pool, deadline, hold), OpenLeg(units, waiting, number, account), found

    def _tally(self, row: Row) -> Found[TallyKey, Tally]:
        (key, tally), (*_, stored) = tally_of(row), row
        return key, tally, _unless("tallies", row_name(key), "lane", stored, lane_of_pool(key[:2], self._lanes))


def _last_of_each(rows: Iterator[Found[K, V]]) -> Iterator[Found[K, V]]:
    """Yield the last row of each key. A key may have rows in several lanes: all but one are wrong, and reported."""
    last = next(rows, None)
    if last is None:
        return
    key, value, differences = last
    for next_key, next_value, next_differences in rows:
        if next_key == key:
            value, differences = next_value, [*differences, *next_differences]
        else:
            yield key, value, differences
            key, value, differences = next_key, next_value, next_differences
    yield key, value, differences
