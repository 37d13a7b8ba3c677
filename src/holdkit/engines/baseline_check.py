"""What `verify` checks of a baseline: its rows by themselves, and what the archived entries say of them.

By themselves: each row has a checksum, and the total says how many rows there are, so that rows which were changed, removed or added by
hand are noticed without the files. With the files the comparison goes both ways: each row must be what the entries fold to, and whatever
these fold to must have its row. Only holds that have ended may be missing there: they leave the baseline once nothing needs them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

import msgspec

from ..core.audit_rows import Difference, Folded, row_name
from ..core.baseline import (
    FILE,
    FLOOR,
    FLOOR_ID,
    HOLD,
    KINDS,
    POOL,
    RECORD,
    TALLY,
    TOTAL,
    ArchivedLane,
    BaselineRow,
    BaselineTotal,
    RowKey,
    encode_row,
    entry_of_row,
    may_leave,
)
from ..core.entries import Entry
from .archiving import StoredBaseline, decode_total, row_checksum

STORED_KINDS: Final = (*KINDS, FILE, TOTAL)
"""The order in which all rows of a baseline are read: the total comes last."""
PAGE: Final = 1_000
"""Rows that are looked up at a time."""


def checked_rows(archived: ArchivedLane, rows: Iterable[tuple[BaselineRow, int]]) -> Iterator[BaselineRow | Difference]:
    """Yield the rows that are state, and what is wrong with any row. `rows` come in the order of `STORED_KINDS`, with their checksums."""
    counted, checksums, has_file = 0, 0, False
    total: BaselineTotal | None = None
    for row, crc in rows:
        expected = row_checksum(archived.lane, row.key, row.body)
        if crc != expected:
            yield Difference("baseline", _name(row.key), "crc", str(crc), str(expected))
        if row.kind == TOTAL:
            total = decode_total(row.body)
            continue
        counted, checksums, has_file = counted + 1, checksums + crc, has_file or row.kind == FILE
        if row.kind != FILE:
            yield row
    where = f"of lane {archived.lane}"
    if total is None:  # as a release has left it that knew of none, unless files are known
        if has_file or (not counted and archived.through):
            yield Difference("baseline", where, "total", "missing", "there")
    elif (total.through, total.edition) == (archived.through, archived.edition):
        if total.rows != counted:
            yield Difference("baseline", where, "rows", str(counted), str(total.rows))
        elif total.checksums != checksums:
            yield Difference("baseline", where, "checksums", str(checksums), str(total.checksums))


def check_baseline(archived: ArchivedLane, rows: Iterable[tuple[BaselineRow, int]]) -> Iterator[Difference]:
    """Yield what is wrong with a lane's baseline by itself."""
    return (found for found in checked_rows(archived, rows) if isinstance(found, Difference))


def baseline_entries(archived: ArchivedLane, rows: Iterable[tuple[BaselineRow, int]]) -> Iterator[Entry | Difference]:
    """Yield a lane's baseline as entries, and what is wrong with its rows."""
    missing_pool: RowKey | None = None
    for found in checked_rows(archived, rows):
        if isinstance(found, Difference):
            yield found
            continue
        if found.kind == TALLY and found.pool is None:
            key: RowKey = (POOL, found.tenant, found.id, "")
            if key != missing_pool:  # the tallies of a pool come one after the other
                missing_pool = key
                yield Difference("baseline", _name(key), "row", "missing", "there")
            continue
        try:
            yield entry_of_row(found, archived.slot)
        except msgspec.DecodeError as error:
            yield Difference("baseline", _name(found.key), "body", str(error), "a row")


def compare_baseline(
    archived: ArchivedLane, rows: Iterable[tuple[BaselineRow, int]], folded: Folded, stored: StoredBaseline
) -> Iterator[Difference]:
    """Compare a lane's baseline with what its archived entries fold to; yield the differences."""
    for found in checked_rows(archived, rows):
        if isinstance(found, Difference):
            yield found
            continue
        expected = _folded(folded, found.key)
        says = "missing" if expected is None else encode_row(expected)
        if says != found.body:
            yield Difference("baseline", _name(found.key), "body", found.body, says)
    expected_rows = _everything(folded)
    while page := list(islice(expected_rows, PAGE)):
        there = stored.load([key for key, _ in page])
        missing = [(key, row) for key, row in page if key not in there]
        ended = [(key[1], key[2]) for key, row in missing if key[0] == HOLD and may_leave(row)]
        left = {*ended}.difference(stored.needed(ended, archived.through) if ended else ())
        for key, _ in missing:
            if key[0] != HOLD or (key[1], key[2]) not in left:
                yield Difference("baseline", _name(key), "row", "missing", "there")


def _folded(folded: Folded, key: RowKey) -> object:
    """Return what the entries say of a row."""
    kind, tenant, id, part = key
    if kind == HOLD:
        return folded.holds.get((tenant, id))
    if kind == RECORD:
        return folded.records.get((tenant, part, id))
    if kind == TALLY:
        return folded.tallies.get((tenant, id, part))
    return folded.pools.get((tenant, id)) if kind == POOL else folded.floors.get((tenant,)) or 0


def _everything(folded: Folded) -> Iterator[tuple[RowKey, Any]]:
    """Yield all that the entries fold to, by the key of its row."""
    for (tenant,), floor in folded.floors.items():
        yield (FLOOR, tenant, FLOOR_ID, ""), floor
    for (tenant, id), pool in folded.pools.items():
        yield (POOL, tenant, id, ""), pool
    for (tenant, id, account), tally in folded.tallies.items():
        yield (TALLY, tenant, id, account), tally
    for (tenant, id), hold in folded.holds.items():
        yield (HOLD, tenant, id, ""), hold
    for (tenant, kind, id), record in folded.records.items():
        yield (RECORD, tenant, id, kind), record


def _name(key: RowKey) -> str:
    kind, tenant, id, part = key
    return f"{kind} {row_name((tenant, part, id) if part else (tenant, id))}"
