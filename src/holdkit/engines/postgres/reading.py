"""Reads: one function per query, from committed state only.

Never shows a due leg as held. Writes nothing, except that a read of the journal first gives numbers to the entries that
callers' transactions have left without, so that a follower misses nothing. Lists are merged from all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from ...core.codec import decode_entry
from ...core.lanes import lane_of_hold, lane_of_pool, lane_of_record
from ...core.model import Limits, Pool, Record, Slot, StoredHold
from ...core.reading import (
    FindEnds,
    FindEntries,
    FindHold,
    FindPool,
    FindPools,
    FindRecord,
    JournalRow,
    ListHolds,
    ListPools,
    ListRecords,
    Query,
    ReadHistory,
    ReadJournal,
    beyond,
    seen_hold,
    seen_pool,
)
from .driver import BEGIN, COMMIT, Driver, Row, Script
from .numbering import number_left
from .rows import hold_of, pool_keys, pool_of, record_of
from .splitting import by_lane
from .terms import Terms, lock_timeout

_DIGITS: Final = "0123456789abcdef"


class At(NamedTuple):
    """Where and when a question is answered."""

    driver: Driver
    terms: Terms

    @property
    def limits(self) -> Limits:
        """As everywhere."""
        return self.terms.limits

    @property
    def lanes(self) -> int:
        """How many there are."""
        return self.terms.lanes

    @property
    def slot(self) -> Slot | None:
        """An injected clock's, or None: the server's."""
        return self.terms.slot

    def ask(self, name: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """One statement's rows; where the tables are distributed, lane after lane."""
        if not self.terms.distributed:
            return self.driver.ask(name, parameters)
        return self.driver.run(by_lane(_asking(name, parameters), range(self.lanes)))


def _asking(name: str, parameters: Sequence[Any]) -> Script[list[Row]]:
    (rows,) = yield ((name, parameters),)
    return rows


def answer(at: At, query: Query[Any]) -> Any:
    """Answer any query."""
    return _ANSWERS[type(query)](at, query)


def _pool(row: Row) -> Pool:
    return seen_pool(pool_of(row), row[13] or 0)


def find_pool(at: At, query: FindPool) -> Pool | None:
    """One pool, due legs counted as returned."""
    rows = at.ask("read_pool", (at.slot, lane_of_pool(query.key, at.lanes), *query.key))
    return _pool(rows[0]) if rows else None


def find_pools(at: At, query: FindPools) -> list[Pool | None]:
    """Several pools, in the order asked."""
    rows = at.ask("read_pools_by_id", (*pool_keys(sorted(set(query.keys)), at.lanes), at.slot)) if query.keys else []
    found = {(row[0], row[1]): _pool(row) for row in rows}
    return [found.get(key) for key in query.keys]


def list_pools(at: At, query: ListPools) -> list[Pool]:
    """A page of pools by id."""
    page = (query.after, query.prefix, beyond(query.prefix), query.prefix.startswith("~"), query.limit)
    if query.entity is None:
        rows = at.ask("read_pools", (at.slot, query.tenant, *page))
    else:
        rows = at.ask("read_pools_of_entity", (at.slot, query.tenant, query.entity, *page))
    return [_pool(row) for row in sorted(rows, key=itemgetter(1))[: query.limit]]


def find_hold(at: At, query: FindHold) -> StoredHold | None:
    """One hold as it looks now: at the latest of the clock and its pools' last slots."""
    tenant, hold_id = query.key
    if not _is_id(hold_id):
        return None
    rows = at.ask("read_hold", (at.slot, lane_of_hold(hold_id, at.lanes), tenant, hold_id))
    return _seen(at, rows)[0] if rows else None


def _seen(at: At, rows: Sequence[Row]) -> list[StoredHold | None]:
    """Each as it looks now. Where lanes are asked one by one, the time of pools in other lanes was not seen by its own."""
    holds = [hold_of(row) for row in rows]
    slots = [row[16] for row in rows]
    if at.terms.distributed:
        for index, hold in enumerate(holds):
            home = lane_of_hold(hold.id, at.lanes)
            pools = [(hold.tenant, leg.pool) for leg in hold.legs]
            apart = [pool for pool in pools if lane_of_pool(pool, at.lanes) != home]
            found = at.ask("read_slots", pool_keys(apart, at.lanes)) if apart else []
            slots[index] = max([slots[index], *(row[0] for row in found if row[0] is not None)])
    return [seen_hold(hold, at.limits, slot) for hold, slot in zip(holds, slots, strict=True)]


def list_holds(at: At, query: ListHolds) -> list[StoredHold]:
    """Holds by id, in the state they show now, page by page until there are enough."""
    state = query.state and query.state.value
    found: list[StoredHold] = []
    begin = first_id_after(query.after)
    while len(found) < query.limit and begin is not None:
        if query.entity is not None:
            rows = at.ask("read_holds_of_entity",
                                 (at.slot, query.tenant, query.entity, begin, state, query.pool, query.limit))  # fmt: skip
        else:
            rows = at.ask("read_holds", (at.slot, query.tenant, begin, state, query.pool, query.limit))
        rows = sorted(rows, key=itemgetter(1))[: query.limit]
        found += [hold for hold in _seen(at, rows) if hold is not None and query.state in (None, hold.state)]
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
    rows = at.ask("read_record", (lane_of_record(query.key, at.lanes), *query.key))
    return record_of(rows[0]) if rows else None


def list_records(at: At, query: ListRecords) -> list[Record]:
    """A page of records of one kind."""
    rows = at.ask("read_records", (query.tenant, query.kind, query.after, query.limit))
    return [record_of(row) for row in sorted(rows, key=itemgetter(2))[: query.limit]]


# The journal


def number(at: At) -> None:
    """Give numbers to what callers' transactions have left without: nobody else may come by for a long time."""
    lanes = [row[0] for row in at.ask("has_unnumbered")]
    if at.terms.distributed:
        for lane in lanes:
            at.driver.run(by_lane(number_left(lane, at.terms), (lane,)))
    elif lanes:
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
    after, lanes = query.after, list(range(at.lanes))
    if at.terms.distributed:  # only those that have gone on
        lanes = [lane for lane, seq in at.ask("read_heads") if seq > after.get(lane, 0)]
    rows = at.ask("read_journal", (lanes, [after.get(lane, 0) for lane in lanes], query.tenant, query.limit))
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
    found = [JournalRow(*row) for lane in sorted(lanes) for row in at.ask("read_history", (lane, tenant, subject))]
    return [row for row in found if len(lanes) == 1 or not decode_entry(row.text).part]


def find_ends(at: At, _: FindEnds) -> list[JournalRow]:
    """The last entry of every lane."""
    number(at)
    if at.terms.distributed:
        return find_entries(at, FindEntries(tuple((lane, seq) for lane, seq in at.ask("read_heads") if seq)))
    return [JournalRow(*row) for row in at.ask("read_ends")]


def find_entries(at: At, query: FindEntries) -> list[JournalRow]:
    """The entries at these places."""
    lanes, seqs = [lane for lane, _ in query.positions], [seq for _, seq in query.positions]
    return [JournalRow(*row) for row in at.ask("read_entries", (lanes, seqs))]


_ANSWERS: Final[dict[type[Any], Callable[[At, Any], Any]]] = {
    FindPool: find_pool,
    FindPools: find_pools,
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
