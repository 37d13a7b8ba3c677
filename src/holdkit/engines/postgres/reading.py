"""Reads: one function per query, from committed state only.

Never shows a due leg as held. Writes nothing, except that a read of the journal first gives numbers to the entries that
callers' transactions have left without, so that a follower misses nothing. Lists are merged from all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import merge
from itertools import groupby
from typing import Any, Final, NamedTuple

from ...core.codec import decode_entry
from ...core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from ...core.model import Limits, Pool, Record, Slot, StoredHold
from ...core.reading import (
    FindEnds,
    FindEntries,
    FindHold,
    FindPool,
    FindRecord,
    JournalRow,
    ListHolds,
    ListPools,
    ListRecords,
    Query,
    ReadHistory,
    ReadJournal,
    seen_hold,
    seen_pool,
)
from .driver import BEGIN, COMMIT, Driver, Row
from .loading import lock_timeout
from .rows import hold_of, pool_of, record_of

_DIGITS: Final = "0123456789abcdef"


class At(NamedTuple):
    """Where and when a question is answered."""

    driver: Driver
    limits: Limits
    lanes: int
    slot: Slot | None
    """An injected clock's, or None: the server's."""


def answer(at: At, query: Query[Any]) -> Any:
    """Answer any query."""
    return _ANSWERS[type(query)](at, query)


def _pool(row: Row) -> Pool:
    return seen_pool(pool_of(row), row[9] or 0)


def find_pool(at: At, query: FindPool) -> Pool | None:
    """One pool, due legs counted as returned."""
    rows = at.driver.ask("read_pool", (at.slot, lane_of_pool(query.key, at.lanes), *query.key))
    return _pool(rows[0]) if rows else None


def list_pools(at: At, query: ListPools) -> list[Pool]:
    """A page of pools by id."""
    reserved = query.prefix.startswith("~")
    rows = at.driver.ask(
        "read_pools",
        (at.slot, query.tenant, query.after, query.prefix, beyond(query.prefix), reserved, query.limit),
    )
    return [_pool(row) for row in rows]


def beyond(prefix: str) -> str | None:
    """The first text, in code point order, after all that begin with `prefix`; None if there is none."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            return prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = prefix[:-1]
    return None


def find_hold(at: At, query: FindHold) -> StoredHold | None:
    """One hold as it looks now: at the latest of the clock and its pools' last slots."""
    tenant, hold_id = query.key
    if not _is_id(hold_id):
        return None
    rows = at.driver.ask("read_hold", (at.slot, lane_of_hold(hold_id, at.lanes), tenant, hold_id))
    return seen_hold(hold_of(rows[0]), at.limits, rows[0][16]) if rows else None


def list_holds(at: At, query: ListHolds) -> list[StoredHold]:
    """Holds by id, in the state they show now, page by page until there are enough."""
    state = query.state and query.state.value
    found: list[StoredHold] = []
    begin = first_id_after(query.after)
    while len(found) < query.limit and begin is not None:
        if query.entity is not None:
            rows = at.driver.ask("read_holds_of_entity",
                                 (at.slot, query.tenant, query.entity, begin, state, query.pool, query.limit))  # fmt: skip
        else:
            rows = at.driver.ask("read_holds", (at.slot, query.tenant, begin, state, query.pool, query.limit))
        seen = (seen_hold(hold_of(row), at.limits, row[16]) for row in rows)
        found += [hold for hold in seen if hold is not None and query.state in (None, hold.state)]
        if len(rows) < query.limit:
            break
        begin = first_id_after(rows[-1][1])
    return found[: query.limit]


def first_id_after(text: str) -> str | None:
    """The first id that comes after a text, which need not be an id itself; None if there is none."""
    digits = ""
    for letter in text[:32]:
        if letter not in _DIGITS:
            later = [digit for digit in _DIGITS if digit > letter]
            if later:
                return (digits + later[0]).ljust(32, "0")
            break
        digits += letter
    else:
        if len(text) < 32:
            return digits.ljust(32, "0")
    number = (int(digits or "0", 16) + 1) << 4 * (32 - len(digits))
    return f"{number:032x}" if digits and number < 1 << 128 else None


def _is_id(text: str) -> bool:
    return len(text) == 32 and not set(text) - set(_DIGITS)


def find_record(at: At, query: FindRecord) -> Record | None:
    """One record."""
    rows = at.driver.ask("read_record", (lane_of_record(query.key, at.lanes), *query.key))
    return record_of(rows[0]) if rows else None


def list_records(at: At, query: ListRecords) -> list[Record]:
    """A page of records of one kind."""
    rows = at.driver.ask("read_records", (query.tenant, query.kind, query.after, query.limit))
    return [record_of(row) for row in rows]


# The journal


def number(at: At) -> None:
    """Give numbers to what callers' transactions have left without: nobody else may come by for a long time."""
    lanes = [row[0] for row in at.driver.ask("has_unnumbered")]
    if lanes:
        nothing: list[Any] = []
        at.driver.say((
            BEGIN,
            ("lock_heads", (lanes, lock_timeout(at.limits))),
            ("write_journal_behind", (lanes, [0] * len(lanes), *(nothing,) * 6)),
            COMMIT,
        ))  # fmt: skip


def read_journal(at: At, query: ReadJournal) -> list[JournalRow]:
    """Entries behind a place: in order within each lane, and the lanes merged by time."""
    number(at)
    lanes = list(range(at.lanes))
    rows = at.driver.ask(
        "read_journal", (lanes, [query.after.get(lane, 0) for lane in lanes], query.tenant, query.limit)
    )
    return _merged(rows)[: query.limit]


def _merged(rows: Iterable[Row]) -> list[JournalRow]:
    by_lane = [[JournalRow(*row) for row in lane] for _, lane in groupby(rows, key=lambda row: row[2])]
    if len(by_lane) == 1:
        return by_lane[0]
    return list(merge(*by_lane, key=lambda row: decode_entry(row.text).slot))


def read_history(at: At, query: ReadHistory) -> list[JournalRow]:
    """All entries about one subject; a record's is kind/id, a hold's its id, anything else is a pool's."""
    tenant, subject = query.tenant, query.subject
    lanes = {lane_of_pool((tenant, subject), at.lanes)}
    if _is_id(subject):
        lanes.add(lane_of_hold(subject, at.lanes))
    for cut in [index for index, letter in enumerate(subject) if letter == "/"][:8]:
        lanes.add(lane_of_record((tenant, subject[:cut], subject[cut + 1 :]), at.lanes))
    found = [
        JournalRow(*row) for lane in sorted(lanes) for row in at.driver.ask("read_history", (lane, tenant, subject))
    ]
    return [row for row in found if len(lanes) == 1 or not decode_entry(row.text).part]


def find_ends(at: At, _: FindEnds) -> list[JournalRow]:
    """The last entry of every lane."""
    number(at)
    return [JournalRow(*row) for row in at.driver.ask("read_ends")]


def find_entries(at: At, query: FindEntries) -> list[JournalRow]:
    """The entries at these places."""
    lanes, seqs = [lane for lane, _ in query.positions], [seq for _, seq in query.positions]
    return [JournalRow(*row) for row in at.driver.ask("read_entries", (lanes, seqs))]


_ANSWERS: Final[dict[type[Any], Callable[[At, Any], Any]]] = {
    FindPool: find_pool,
    ListPools: list_pools,
    FindHold: find_hold,
    ListHolds: list_holds,
    FindRecord: find_record,
    ListRecords: list_records,
    ReadJournal: read_journal,
    ReadHistory: read_history,
    FindEnds: find_ends,
    FindEntries: find_entries,
}
