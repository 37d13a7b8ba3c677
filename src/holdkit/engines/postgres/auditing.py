"""Verify: names every row that is not what the journal says, or whose checksum or lane does not fit.

Reads one consistent snapshot and writes nothing. Each lane folds by itself; entries that have no number yet come last in
theirs. Rows that cannot even be decoded are named, and the audit goes on with the others.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import structs

from ...core.audit import Difference, Folded, Stored, audit, leg_name, row_name
from ...core.codec import decode_entry
from ...core.entries import Entry
from ...core.lanes import lane_of_hold, lane_of_operation, lane_of_pool, lane_of_record
from ...core.model import MAX_SLOT, Key, Limits, Pool, Record, RecordKey, Slot, StoredHold
from .driver import ROLLBACK, Driver, Row
from .rows import checksum, hold_of, new_hold_row, operation_checksum, pool_of, pool_row, record_of

PAGE = 10_000
"""Entries read at a time."""


def verify(driver: Driver, limits: Limits, lanes: int, now: Slot) -> Iterator[Difference]:
    """Every difference."""
    driver.say((("begin_snapshot", ()),))
    try:
        audit_of = Audit(driver, limits, lanes)
        yield from audit_of.differences(now)
    finally:
        if driver.usable and not driver.busy:
            driver.say((ROLLBACK,))


class Audit:
    """One verification, in a transaction that is open; what was compared is left for who wants to mend it."""

    def __init__(self, driver: Driver, limits: Limits, lanes: int) -> None:
        self._driver, self._limits, self._lanes = driver, limits, lanes
        self._found: list[Difference] = []
        self.stored: Stored | None = None
        self.folded = Folded()
        self.latest: Slot = 0

    def differences(self, now: Slot) -> Iterator[Difference]:
        """Every one."""
        heads = self._driver.ask("audit_heads")
        if [row[0] for row in heads] != list(range(self._lanes)):
            yield Difference("heads", "", "lanes", str([row[0] for row in heads]), f"0 … {self._lanes - 1}")
        self.stored = stored = self._stored(max((row[2] for row in heads), default=0))
        entries = [entry for row in heads for entry in self._lane(row[0], row[1])]
        self._operations()
        yield from self._found
        numbered = (structs.replace(entry, seq=number) for number, entry in enumerate(entries, 1))  # lanes were checked
        self.latest = max([now, *(entry.slot for entry in entries)])
        yield from audit(numbered, stored, self._limits, self.latest, self.folded)

    def _add(self, table: str, key: str, field: str, stored: object, expected: object) -> None:
        if stored != expected:
            self._found.append(Difference(table, key, field, str(stored), str(expected)))

    # The journal

    def _lane(self, lane: int, last: int) -> Iterator[Entry]:
        """A lane's entries, without a gap from the first to the head's number."""
        expected = 1
        while rows := self._driver.ask("audit_journal", (lane, expected - 1, PAGE)):
            for row in rows:
                self._add("journal", f"{lane}/{row[0]}", "seq", row[0], expected)
                expected = row[0] + 1
                yield from self._entry(f"{lane}/{row[0]}", row)
        self._add("heads", str(lane), "seq", last, expected - 1)
        for row in self._driver.ask("audit_unnumbered", (lane,)):
            yield from self._entry(f"{lane}/unnumbered", row)

    def _entry(self, where: str, row: Row) -> Iterator[Entry]:
        _, tenant, subject, body, crc = row
        self._add("journal", where, "crc", crc, checksum(body.encode()))
        try:
            entry = decode_entry(body)
        except msgspec.DecodeError as error:
            self._add("journal", where, "body", str(error), "an entry")
            return
        self._add("journal", where, "tenant", tenant, entry.tenant)
        self._add("journal", where, "subject", subject, entry.subject)
        yield entry

    # The rows

    def _stored(self, floor: int) -> Stored:
        pools: dict[Key, Pool] = {}
        holds: dict[Key, StoredHold] = {}
        records: dict[RecordKey, Record] = {}
        for row in self._driver.ask("audit_pools"):
            pool = pools[row[0], row[1]] = pool_of(row)
            expected = pool_row(pool, self._lanes)
            for field, stored, says in (("lane", row[15], expected[0]), ("over", row[13], expected[10]),
                                        ("idle", row[14], expected[11]), ("resting", row[17], expected[14])):  # fmt: skip
                self._add("pools", row_name(pool.key), field, stored, says)
        for row in self._driver.ask("audit_holds"):
            self._hold(row, holds)
        for row in self._driver.ask("audit_records"):
            record = record_of(row)
            records[record.key] = record
            self._add("records", row_name(record.key), "lane", row[6], lane_of_record(record.key, self._lanes))
        return Stored(pools, holds, records, self._legs(holds), floor)

    def _hold(self, row: Row, holds: dict[Key, StoredHold]) -> None:
        try:
            hold = holds[row[0], row[1]] = hold_of(row)
        except msgspec.DecodeError as error:
            self._add("holds", row_name((row[0], row[1])), "legs", str(error), "legs")
            return
        expected = new_hold_row(hold, self._lanes)
        for field, stored, says in (("open", row[16], hold.open), ("lane", row[17], lane_of_hold(hold.id, self._lanes)),
                                    ("pools", row[18], expected[4]), ("pool_lanes", row[19], expected[5])):  # fmt: skip
            self._add("holds", row_name(hold.key), field, stored, says)

    def _legs(self, holds: dict[Key, StoredHold]) -> dict[tuple[str, str, int | None, str], int]:
        legs: dict[tuple[str, str, int | None, str], int] = {}
        for tenant, pool, deadline, hold, units, lane in self._driver.ask("audit_legs"):
            self._add("legs", leg_name(tenant, pool, hold), "lane", lane, lane_of_pool((tenant, pool), self._lanes))
            row = holds.get((tenant, hold))
            endless = deadline == MAX_SLOT and (row is None or row.deadline is None)
            legs[tenant, pool, None if endless else deadline, hold] = units
        return legs

    def _operations(self) -> None:
        for row in self._driver.ask("audit_operations"):
            expected = operation_checksum(row[0], row[1], row[2], row[3], row[4].encode())
            self._add("operations", row_name((row[0], row[1])), "crc", row[5], expected)
            self._add(
                "operations",
                row_name((row[0], row[1])),
                "lane",
                row[6],
                lane_of_operation((row[0], row[1]), self._lanes),
            )
