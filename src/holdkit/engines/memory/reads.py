"""The queries of the memory engine: rows as they are at the present slot, in a defined order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, takewhile
from operator import itemgetter
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from ...core.bounds import Limits
from ...core.codec import minted_at
from ...core.model import Pool, Record, Slot, State, StoredHold
from ...core.pages import Page, hold_bytes, page_of, ranges_behind, record_bytes
from ...core.reading import (
    ROW_BYTES,
    AccountUsage,
    CountAhead,
    CountRows,
    FindAvailable,
    FindHold,
    FindHolds,
    FindPool,
    FindPools,
    FindRecord,
    ListHolds,
    ListKinds,
    ListPools,
    ListRecords,
    ListTenants,
    ListUsage,
    NextDeadline,
    Query,
    ReadClock,
    RowCount,
    Survey,
    TakeSurvey,
)
from ...core.searching import ListAccounts, ListEntities, ListLine, fits_hold, ids_left, ids_minted, line_page, reached
from ...core.seen import NOTHING_ON_POOL, DueOnPool, seen_hold, seen_pool
from ...core.trees import ancestors
from .journal import Journal
from .journal_reads import JOURNAL_ANSWERS
from .tables import Tables

K = TypeVar("K", bound=tuple[str, ...])


class Reader(Struct, frozen=True):
    """What a query may use: the tables, the journal, the limits in force and the present slot."""

    tables: Tables
    journal: Journal
    limits: Limits
    slot: Slot

    def pool(self, row: Pool) -> Pool:
        """Return the pool, with its due legs counted as returned."""
        due = self._due(row)
        above = [self.tables.pools[row.tenant, name] for name in ancestors(row.id)]
        return seen_pool(row, due, [(pool, self._due(pool)) for pool in above])

    def _due(self, row: Pool) -> DueOnPool:
        """Return what is due on a pool at its own time, and whether its line lets a plain hold pass."""
        now = max(self.slot, row.slot)
        legs = self.tables.legs.get(row.key, {})
        due = [legs[hold_id] for _, hold_id in self.tables.due(row.key, now)]
        if not due and not row.waiting:
            return NOTHING_ON_POOL
        waits = any(not self._over(row, hold, now) for hold in self.tables.asking(row.key, row.total))
        return DueOnPool(sum([leg.units for leg in due]), sum([1 for leg in due if leg.waiting]), waits)

    def _over(self, pool: Pool, hold_id: str, now: Slot) -> bool:
        return self.tables.holds[pool.tenant, hold_id].due(now)

    def hold(self, row: StoredHold | None) -> StoredHold | None:
        """Return the hold as a command would find it: at the present slot, or at the slot of one of its pools if that is later."""
        if row is None:
            return None
        pools = (self.tables.pools.get((row.tenant, name)) for name in row.pools)
        return seen_hold(row, self.limits, max([self.slot, *(pool.slot for pool in pools if pool is not None)]))


def find_pool(reader: Reader, query: FindPool) -> Pool | None:
    """Return a pool."""
    row = reader.tables.pools.get(query.key)
    return None if row is None else reader.pool(row)


def find_pools(reader: Reader, query: FindPools) -> list[Pool | None]:
    """Return several pools, in the order asked."""
    return [find_pool(reader, FindPool(key)) for key in query.keys]


def find_available(reader: Reader, query: FindAvailable) -> bytes:
    """Return which of these pools have a unit left."""
    rows = (reader.tables.pools.get((query.tenant, id)) for id in query.pools)
    return bytes(
        [
            row is not None and not row.archived and bool(row.available or (row.held and reader.pool(row).available))
            for row in rows
        ]
    )


def list_pools(reader: Reader, query: ListPools) -> list[Pool]:
    """Return pools in order of id."""
    if query.entity is None:
        keys = keys_after(reader.tables.pools, (query.tenant, query.after))
    else:
        linked = reader.tables.linked.get((query.tenant, query.entity), [])
        keys = ((query.tenant, name) for name in linked[bisect_right(linked, query.after) :])
    found = (
        reader.pool(reader.tables.pools[key])
        for key in keys
        if key[1].startswith(query.prefix)
        and (query.prefix or key[1][0] != "~")
        and (query.archived or not reader.tables.pools[key].archived)
    )
    return list(islice(found, query.limit))


def find_hold(reader: Reader, query: FindHold) -> StoredHold | None:
    """Return a hold."""
    return reader.hold(reader.tables.holds.get(query.key))


def find_holds(reader: Reader, query: FindHolds) -> list[StoredHold | None]:
    """Return several holds, in the order asked."""
    return [reader.hold(reader.tables.holds.get(key)) for key in query.keys]


def list_holds(reader: Reader, query: ListHolds) -> Page[StoredHold]:
    """Return holds by id that fit. Passes all of them from where the query begins: the tables know no shorter way."""
    left, minted = ids_left(query), ids_minted(query)
    keys = sorted(key for key in reader.tables.holds if key[0] == query.tenant and left.has(key[1]))
    if minted is not None:
        keys = [key for key in keys if minted.has(key[1]) or minted_at(key[1]) is None]
    walk = list(islice(reversed(keys) if query.newest_first else keys, query.max_scanned))
    shown = (reader.hold(reader.tables.holds[key]) for key in walk)
    found = (hold for hold in shown if hold is not None and fits_hold(hold, query))
    end = walk[-1][1] if len(walk) < len(keys) else None
    return reached(page_of(found, hold_bytes, query.limit, query.max_bytes), end)


def list_entities(reader: Reader, query: ListEntities) -> list[str]:
    """Return entities of holds, in order."""
    holds = reader.tables.holds
    found = {hold.entity for (tenant, _), hold in holds.items() if tenant == query.tenant and hold.entity is not None}
    return _names(found, query)


def list_accounts(reader: Reader, query: ListAccounts) -> list[str]:
    """Return accounts that use anything, in order."""
    return _names({account for tenant, account in reader.tables.accounts if tenant == query.tenant}, query)


def _names(found: Iterable[str], query: ListEntities | ListAccounts) -> list[str]:
    return sorted(name for name in found if name.startswith(query.prefix) and name > query.after)[: query.limit]


def count_ahead(reader: Reader, query: CountAhead) -> int | None:
    """Count the holds that wait in front of a hold and are not due."""
    hold = find_hold(reader, FindHold(query.key))
    if hold is None or hold.state is not State.WAITING:
        return None
    tenant, pool = hold.tenant, hold.legs[0].pool
    now = max(reader.slot, reader.tables.pools[tenant, pool].slot)
    before = takewhile(lambda place: place[1] != hold.id, reader.tables.lines[tenant, pool])
    ahead = (one for _, one in before if not reader.tables.holds[tenant, one].due(now))
    return sum(1 for _ in islice(ahead, query.limit))


def list_line(reader: Reader, query: ListLine) -> Page[StoredHold]:
    """Return the holds that wait in a line and are not due."""
    line = reader.tables.lines.get(query.key, [])
    behind = line[bisect_right(line, query.after, key=itemgetter(0)) :]
    return line_page((reader.hold(reader.tables.holds[query.key[0], id]) for _, id in behind), query)


def next_deadline(reader: Reader, query: NextDeadline) -> Slot | None:
    """Return the first deadline on a pool."""
    order = reader.tables.deadlines.get(query.key)
    return order.slots[0] if order else None


def list_usage(reader: Reader, query: ListUsage) -> list[AccountUsage]:
    """Return what an account uses, by pool, without legs that are due."""
    tables, account = reader.tables, query.account
    pools = tables.accounts.get((query.tenant, account), [])
    found: list[AccountUsage] = []
    for name in _within(pools, query):
        row = tables.pools[query.tenant, name]
        legs = tables.legs.get(row.key, {})
        due = [legs[hold] for _, hold in tables.due(row.key, max(reader.slot, row.slot))]
        used = tables.tallies[query.tenant, name, account].used
        used -= sum([leg.units + leg.waiting for leg in due if leg.account == account])
        if used:
            found.append(AccountUsage(name, used, row.per_account))
        if len(found) == query.limit:
            break
    return found


def _within(pools: list[str], query: ListUsage) -> Iterator[str]:
    """Yield those of these ordered pools that the query asks for."""
    for lower, upper in ranges_behind(query.after, query.within or ("",)):
        for name in islice(pools, bisect_left(pools, lower), None if upper is None else bisect_left(pools, upper)):
            if name != query.after:
                yield name


def find_record(reader: Reader, query: FindRecord) -> Record | None:
    """Return a record."""
    return reader.tables.records.get(query.key)


def list_records(reader: Reader, query: ListRecords) -> Page[Record]:
    """Return records of a kind in order of id."""
    records = reader.tables.records
    found = (records[key] for key in keys_after(records, (query.tenant, query.kind, query.after)))
    return page_of(found, record_bytes, query.limit, query.max_bytes)


def list_tenants(reader: Reader, query: ListTenants) -> list[str]:
    """Return tenants that have pools, in order."""
    return sorted({tenant for tenant, _ in reader.tables.pools if tenant > query.after})[: query.limit]


def list_kinds(reader: Reader, query: ListKinds) -> list[str]:
    """Return kinds of a tenant's records, in order."""
    kinds = {kind for tenant, kind, _ in reader.tables.records if tenant == query.tenant and kind > query.after}
    return sorted(kinds)[: query.limit]


SAMPLE: Final = 1_000
"""Rows whose bytes are counted, because readers wait meanwhile; the others count as these do on average."""


def count_rows(reader: Reader, query: CountRows) -> RowCount:
    """Count all rows of one table in one step, their bytes from a sample: they are in memory, in another form."""
    table: Mapping[Any, Struct] = getattr(reader.tables, query.table)
    keys = [key for key in table if key[0] == query.tenant]
    sample = [len(msgspec.json.encode(table[key])) for key in keys[:SAMPLE]]
    average = ROW_BYTES + sum(sample) / max(1, len(sample))
    live = sum(reader.tables.holds[key].live for key in keys) if query.table == "holds" else 0
    return RowCount(len(keys), round(average * len(keys)), live=live)


def read_clock(reader: Reader, _query: ReadClock) -> Slot:
    """Return the machine's clock, or the injected one."""
    return reader.slot


def take_survey(reader: Reader, _query: TakeSurvey) -> Survey:
    """Count for `doctor` and statistics."""
    tables, now, end = reader.tables, reader.slot, reader.journal.end()
    due, _ = tables.due_holds(now, 1, 1)
    live = sum(1 for hold in tables.holds.values() if hold.live and not hold.due(now))
    oldest = tables.holds[due[0]].deadline if due else None
    latest = max([pool.slot for pool in tables.pools.values()], default=None)
    return Survey(len(tables.pools), live, 0 if end is None else end.seq, oldest, now, latest)


def keys_after(rows: Mapping[K, object], after: K) -> Iterator[K]:
    """Yield keys with the same beginning as `after` whose last part is greater, in order.

    Sorts all keys each time: generated ids arrive in order, and to sort what is in order takes one pass.
    """
    keys = sorted(rows)
    for key in islice(keys, bisect_right(keys, after), None):
        if key[:-1] != after[:-1]:
            return
        yield key


ANSWERS: Final[dict[type[Query[Any]], Callable[[Reader, Any], Any]]] = {
    FindPool: find_pool,
    FindPools: find_pools,
    FindAvailable: find_available,
    ListPools: list_pools,
    FindHold: find_hold,
    FindHolds: find_holds,
    ListHolds: list_holds,
    ListEntities: list_entities,
    ListAccounts: list_accounts,
    CountAhead: count_ahead,
    ListLine: list_line,
    NextDeadline: next_deadline,
    ListUsage: list_usage,
    FindRecord: find_record,
    ReadClock: read_clock,
    ListRecords: list_records,
    ListTenants: list_tenants,
    ListKinds: list_kinds,
    CountRows: count_rows,
    TakeSurvey: take_survey,
}


def answer(query: Query[Any], tables: Tables, journal: Journal, limits: Limits, slot: Slot) -> Any:
    """Run the function that answers this type of query."""
    if type(query) in JOURNAL_ANSWERS:
        return JOURNAL_ANSWERS[type(query)](journal, query)
    return ANSWERS[type(query)](Reader(tables, journal, limits, slot), query)
