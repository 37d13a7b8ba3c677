"""`verify` on SQLite: names every row that differs from what the journal says, or whose checksum is wrong.

Writes nothing, and keeps little in memory: see `core.audit`. Entries of the journal never change, so most of the journal is read in
pages, each in a transaction of its own; between them other connections can checkpoint the WAL. Only the entries written meanwhile, and
the rows, are read in one snapshot. The audit names a row that it cannot decode, and continues with the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Final

import msgspec

from ...core.audit import Numbered, audit
from ...core.audit_rows import Difference, Folded, Found, LegKey, Mismatches, TenantKey, row_name
from ...core.bounds import MEANING, Limits
from ...core.codec import decode_entry
from ...core.hold_columns import DERIVED, hold_of, kept_row
from ...core.model import Key, Pool, Record, RecordKey, Slot, StoredHold
from ...core.outstanding import OpenLeg, Tally, TallyKey
from ...errors import EngineError
from ..archive_files import decoded
from ..archiving import ArchivedEntries
from ..baseline_check import baseline_entries, compare_baseline
from ..progress import Meter, Progress
from ..spill import Spill
from .archived_reading import SqliteBaseline, archived_lane, baseline_rows, check_archived
from .driver import Driver, Row, migrations
from .rows import (
    BESIDE_HOLD,
    BESIDE_POOL,
    ERASING,
    GENERATION,
    REWRITES,
    SECRET,
    checksum,
    entry_checksum,
    pool_of,
)

OPTIONAL: Final = frozenset({"scrubbed", ERASING, REWRITES})
"""Settings that may be missing. `scrubbed` is the row that a write after a failed COMMIT puts, if it has nothing else to write."""
SETTINGS: Final = frozenset({*OPTIONAL, GENERATION, SECRET, *(f"limit.{name}" for name in MEANING)})
"""The settings that may be stored."""
PAGE: Final = 1_000
"""Entries read at a time."""


class Audit:
    """One verification. Until it is closed, `repair` can use what the journal folds to (`folded`) and the rows that differ
    (`mismatches`)."""

    def __init__(
        self,
        driver: Driver,
        created: Limits,
        progress: Progress | None = None,
        archive: ArchivedEntries | None = None,
    ) -> None:
        self._driver, self._created, self._progress, self._archive = driver, created, progress, archive
        self._spill = Spill()
        self.folded = Folded(self._spill.table)
        self.stored = Rows(driver)
        self.mismatches = Mismatches()

    def differences(self, now: Slot) -> Iterator[Difference]:
        """Yield every difference. Begins a transaction for its snapshot, unless one is open; the caller ends it."""
        driver = self._driver
        yield from check_migrations(driver)
        yield from check_settings(driver, self._created)
        entries, holds = driver.ask("load_head")[0][0] or 0, driver.ask("count_holds")[0][0]
        meter = self.stored.meter = Meter(self._progress, entries + holds)
        yield from check_operations(meter.watch(driver.each("audit_operations")))
        journal = meter.over(self._journal())
        yield from audit(journal, self.stored, self._created, now, self.folded, self.mismatches)
        meter.finish()

    def _journal(self) -> Iterator[Numbered | Difference]:
        """Yield what the archived entries have led to, from the baseline or, if the files are given, from them; then the entries that are
        kept."""
        driver, archive = self._driver, self._archive
        inside = driver.connection.in_transaction
        if not inside:
            driver.tell("begin")
        archived, found = archived_lane(driver), list(check_archived(driver))
        yield from found
        rows = baseline_rows(driver)
        if archive is not None and archived.through:
            for row in archive(0, archived.through):
                yield row if isinstance(row, Difference) else (row.seq, decoded(row))
            yield from compare_baseline(archived, rows, self.folded, SqliteBaseline(driver))
        else:
            number = archived.through - driver.ask("count_baseline")[0][0]
            for one in baseline_entries(archived, rows):
                number += not isinstance(one, Difference)
                yield one if isinstance(one, Difference) else (number, one)
        if not inside:
            driver.tell("rollback")
        yield from read_journal(driver, archived.through)

    def close(self) -> None:
        """Free the memory and the temporary file."""
        self._spill.close()


def verify(
    driver: Driver,
    created: Limits,
    now: Slot,
    progress: Progress | None = None,
    archive: ArchivedEntries | None = None,
) -> Iterator[Difference]:
    """Yield every difference."""
    with closing(Audit(driver, created, progress, archive)) as audit_of:
        yield from audit_of.differences(now)


def check_migrations(driver: Driver) -> Iterator[Difference]:
    """Check that the version table lists exactly the migrations we know."""
    known = {number: name for number, name, _ in migrations()}
    stored: dict[int, str] = dict(driver.ask("audit_migrations"))
    for number in sorted({*known, *stored}):
        if known.get(number) != stored.get(number):
            yield Difference("migrations", str(number), "name", str(stored.get(number)), str(known.get(number)))


def check_settings(driver: Driver, created: Limits) -> Iterator[Difference]:
    """Check that every setting exists, is known to this version, and matches its checksum."""
    seen = set()
    for name, value, crc in driver.ask("audit_settings"):
        seen.add(name)
        if name not in SETTINGS:
            yield Difference("settings", name, "row", "there", "missing")
        elif checksum(name, value) != crc:
            yield Difference("settings", name, "crc", str(crc), str(checksum(name, value)))
    for name in sorted(SETTINGS - seen - OPTIONAL):
        yield Difference("settings", name, "row", "missing", "there")
    for name in MEANING:  # as when the file was created; later changes are in a record
        for (value,) in driver.ask("find_setting", (f"limit.{name}",)):
            if value != msgspec.json.encode(getattr(created, name)).decode():
                yield Difference("settings", f"limit.{name}", "value", value, str(getattr(created, name)))


def check_operations(rows: Iterator[Row]) -> Iterator[Difference]:
    """Check that every stored answer of an operation id matches its checksum."""
    for tenant, id, *columns, crc in rows:
        expected = checksum(tenant, id, *columns)
        if expected != crc:
            yield Difference("operations", row_name((tenant, id)), "crc", str(crc), str(expected))


def read_journal(driver: Driver, through: int) -> Iterator[Numbered | Difference]:
    """Yield every entry behind those that are archived, and every difference in its row. Reads the last pages in the transaction that
    stays open for the rows."""
    last = through
    while True:
        rows = driver.ask("audit_journal", (last, PAGE))
        if archived_lane(driver).through > last:
            raise EngineError(
                "entries were archived while they were verified: wait until that has ended, and verify again"
            )
        for row in rows:
            yield from _entry(*row)
        last = rows[-1][0] if rows else last
        if len(rows) < PAGE:
            if driver.connection.in_transaction:
                break
            driver.tell("begin")  # the snapshot: later writes are not seen
    if through and last == through:
        yield Difference("journal", str(through + 1), "row", "missing", "there")


def _entry(seq: int, tenant: str, subject: str, body: str, crc: int) -> Iterator[Numbered | Difference]:
    expected = entry_checksum(seq, body.encode())
    if expected != crc:
        yield Difference("journal", str(seq), "crc", str(crc), str(expected))
    try:
        entry = decode_entry(body)
    except msgspec.DecodeError as error:
        yield Difference("journal", str(seq), "body", str(error), "an entry")
        return
    for field, stored, says in (("tenant", tenant, entry.tenant), ("subject", subject, entry.subject)):
        if stored != says:
            yield Difference("journal", str(seq), field, str(stored), str(says))
    yield seq, entry


class Rows:
    """All stored rows, as `core.audit` compares them; columns derived from others are checked here."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.meter = Meter(None, 0)

    def each_floor(self) -> Iterator[Found[TenantKey, int]]:
        """Yield every tenant's fence floor."""
        for tenant, floor in self._driver.each("audit_floors"):
            yield (tenant,), floor, ()

    def each_pool(self) -> Iterator[Found[Key, Pool]]:
        """Yield every pool."""
        for row in self.meter.watch(self._driver.each("audit_pools")):
            pool = pool_of(row)
            (over,) = row[BESIDE_POOL]
            differences: tuple[Difference, ...] = ()
            if pool.over != bool(over):
                differences = (Difference("pools", row_name(pool.key), "over", str(over), str(int(pool.over))),)
            yield pool.key, pool, differences

    def each_hold(self) -> Iterator[Found[Key, StoredHold]]:
        """Return every hold."""
        return self.meter.over(map(_hold, self._driver.each("audit_holds")))

    def each_record(self) -> Iterator[Found[RecordKey, Record]]:
        """Yield every record."""
        for row in self.meter.watch(self._driver.each("audit_records")):
            record = Record(*row)
            yield record.key, record, ()

    def each_leg(self) -> Iterator[Found[LegKey, OpenLeg]]:
        """Yield every outstanding leg, and every place in a line."""
        for tenant, pool, deadline, hold, *leg in self.meter.watch(self._driver.each("audit_legs")):
            yield (tenant, pool, deadline, hold), OpenLeg(*leg), ()

    def each_tally(self) -> Iterator[Found[TallyKey, Tally]]:
        """Yield every tally."""
        for tenant, pool, account, used, loose in self.meter.watch(self._driver.each("audit_tallies")):
            yield (tenant, pool, account), Tally(account, used, loose), ()


def _hold(row: Row) -> Found[Key, StoredHold]:
    try:
        hold = hold_of(row)
    except msgspec.DecodeError as error:
        tenant, id, *_ = row
        return (tenant, id), None, (Difference("holds", row_name((tenant, id)), "legs", str(error), "legs"),)
    key, derived = hold.key, (int(hold.open), *kept_row(hold))
    if row[BESIDE_HOLD] == derived:
        return key, hold, ()
    columns = zip(DERIVED, row[BESIDE_HOLD], derived, strict=True)
    return (
        key,
        hold,
        [Difference("holds", row_name(key), name, str(is_), str(says)) for name, is_, says in columns if is_ != says],
    )
