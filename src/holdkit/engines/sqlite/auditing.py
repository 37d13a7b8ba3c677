"""Verify: names every row that is not what the journal says, or whose checksum does not fit.

Reads one consistent snapshot and writes nothing. Rows that cannot even be decoded are named, and the audit goes on with
the others.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from ...core.audit import Difference, Folded, Stored, audit, row_name
from ...core.codec import decode_entry
from ...core.entries import Entry
from ...core.model import MAX_SLOT, MEANING, Key, Limits, Pool, Record, RecordKey, Slot, StoredHold
from .driver import Driver
from .rows import checksum, hold_of, pool_of, record_of
from .statements import migrations

T = TypeVar("T")

SETTINGS = frozenset({"fence_floor", "scrubbed", *(f"limit.{name}" for name in MEANING)})


def verify(driver: Driver, limits: Limits, now: Slot, compared: Compared | None = None) -> Iterator[Difference]:
    """Every difference, on a connection whose transaction is open; what was compared is left in `compared`."""
    yield from check_migrations(driver)
    yield from check_settings(driver, limits)
    yield from check_operations(driver)
    found: list[Difference] = []
    journal = Journal(driver)
    stored = read_stored(driver, found)
    yield from found
    entries = list(journal.entries())
    yield from journal.found
    latest = max([now, *(entry.slot for entry in entries)])  # rows are pruned by the clock of those who wrote
    compared = compared or Compared()
    compared.stored, compared.latest, compared.last_seq = stored, latest, entries[-1].seq if entries else 0
    yield from audit(entries, stored, limits, latest, compared.folded)


class Compared:
    """What a verification compared: the rows, and what the journal came to."""

    def __init__(self) -> None:
        self.stored: Stored | None = None
        self.folded = Folded()
        self.latest: Slot = 0
        self.last_seq = 0


def check_migrations(driver: Driver) -> Iterator[Difference]:
    """The version table lists exactly the migrations we know."""
    known = {number: name for number, name, _ in migrations()}
    stored: dict[int, str] = {row[0]: row[1] for row in driver.ask("audit_migrations")}
    for number in sorted({*known, *stored}):
        if known.get(number) != stored.get(number):
            yield Difference("migrations", str(number), "name", str(stored.get(number)), str(known.get(number)))


def check_settings(driver: Driver, limits: Limits) -> Iterator[Difference]:
    """Every setting is there, is one of ours, and fits its checksum."""
    seen = set()
    for name, value, crc in driver.ask("audit_settings"):
        seen.add(name)
        if name not in SETTINGS:
            yield Difference("settings", name, "row", "there", "missing")
        elif checksum(name, value) != crc:
            yield Difference("settings", name, "crc", str(crc), str(checksum(name, value)))
    for name in sorted(SETTINGS - seen - {"scrubbed"}):
        yield Difference("settings", name, "row", "missing", "there")
    for name in MEANING:  # changed while we were open: a checksum made to fit would not hide it
        for row in driver.ask("find_setting", (f"limit.{name}",)):
            if row[0] != msgspec.json.encode(getattr(limits, name)).decode():
                yield Difference("settings", f"limit.{name}", "value", row[0], str(getattr(limits, name)))


def check_operations(driver: Driver) -> Iterator[Difference]:
    """Every remembered answer fits its checksum."""
    for row in driver.each("audit_operations"):
        expected = checksum(*row[:5])
        if expected != row[5]:
            yield Difference("operations", row_name((row[0], row[1])), "crc", str(row[5]), str(expected))


class Journal:
    """The journal as entries; what is wrong with a row is kept in `found`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.found: list[Difference] = []

    def entries(self) -> Iterator[Entry]:
        """Every entry that can be decoded."""
        for seq, tenant, subject, body, crc in self._driver.each("audit_journal"):
            expected = zlib.crc32(body.encode())
            if expected != crc:
                self._add(seq, "crc", crc, expected)
            try:
                entry = decode_entry(body)
            except msgspec.DecodeError as error:
                self._add(seq, "body", str(error), "an entry")
                continue
            for field, stored, says in (("seq", seq, entry.seq), ("tenant", tenant, entry.tenant),
                                        ("subject", subject, entry.subject)):  # fmt: skip
                if stored != says:
                    self._add(seq, field, stored, says)
            yield entry

    def _add(self, seq: int, field: str, stored: object, expected: object) -> None:
        self.found.append(Difference("journal", str(seq), field, str(stored), str(expected)))


def read_stored(driver: Driver, found: list[Difference]) -> Stored:
    """All rows; derived columns are checked on the way."""
    pools: dict[Key, Pool] = {}
    holds: dict[Key, StoredHold] = {}
    records: dict[RecordKey, Record] = {}
    for row in driver.each("audit_pools"):
        pool = pools[row[0], row[1]] = pool_of(row)
        if pool.over != bool(row[13]):
            found.append(Difference("pools", row_name(pool.key), "over", str(row[13]), str(int(pool.over))))
    for row in driver.each("audit_holds"):
        try:
            hold = holds[row[0], row[1]] = hold_of(row)
        except msgspec.DecodeError as error:
            found.append(Difference("holds", row_name((row[0], row[1])), "legs", str(error), "legs"))
            continue
        if hold.open != bool(row[16]):
            found.append(Difference("holds", row_name(hold.key), "open", str(row[16]), str(int(hold.open))))
    for row in driver.each("audit_records"):
        record = record_of(row)
        records[record.key] = record
    legs = {
        (tenant, pool, None if _endless(deadline, holds.get((tenant, hold))) else deadline, hold): units
        for tenant, pool, deadline, hold, units in driver.each("audit_legs")
    }
    floor = driver.ask("find_setting", ("fence_floor",))
    return Stored(pools, holds, records, legs, _whole(floor[0][0]) if floor else 0)


def _endless(deadline: Slot, hold: StoredHold | None) -> bool:
    """Legs without a deadline are filed under the last slot; but a hold may really have that one."""
    return deadline == MAX_SLOT and (hold is None or hold.deadline is None)


def _whole(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else -1
