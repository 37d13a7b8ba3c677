"""Reads of pools, holds, records and tenants, as scripts: on our connections, and on a caller's, where they see its uncommitted changes.

They lock and write nothing, and never show a due leg as held.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, Final, TypeVar

from ...core.lanes import lane_of_pool, lane_of_record
from ...core.model import Key, Pool, Record, Slot
from ...core.pages import Page, beyond, page_of, ranges_behind, record_bytes
from ...core.reading import (
    AccountUsage,
    CountAhead,
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
)
from ...core.searching import ListAccounts, ListEntities, ListLine
from ...core.seen import NOTHING_ON_POOL, DueOnPool, seen_pool
from ...core.trees import ancestors, path_of
from .database import BatchOptions
from .driver import Row, Script
from .hold_reading import (
    count_ahead,
    find_hold,
    find_holds,
    list_accounts,
    list_entities,
    list_holds,
    list_line,
    query_one,
)
from .in_doubt import find_settled
from .rows import POOL_COLUMNS, pool_keys, pool_of, record_of
from .statements import split_by_lane

T = TypeVar("T")


def read_script(options: BatchOptions, query: Query[Any]) -> Script[Any] | None:
    """Return the script that answers a query; None if another module answers it."""
    found = _READS.get(type(query))
    if found is None:
        return None
    script: Script[Any] = found(options, query)
    return split_by_lane(script, range(options.lanes)) if options.distributed else script


def with_clock(options: BatchOptions, script: Script[T]) -> Script[tuple[T, Slot | None]]:
    """Run a read, and read the server's clock in its first round trip; with distributed tables the clock is None."""
    slot: Slot | None = None
    try:
        statements = next(script)
        if not options.distributed:
            *answers, ((slot,),) = yield (*statements, ("read_clock", (options.slot,)))
            statements = script.send(answers)
        while True:
            statements = script.send((yield statements))
    except StopIteration as stop:
        return stop.value, slot
    finally:
        script.close()


def _with_due(row: Row) -> tuple[Key, tuple[Pool, DueOnPool]]:
    """Return a pool and its due units, by its key."""
    units, waiting, line_ahead = row[POOL_COLUMNS:]
    due = DueOnPool(units or 0, waiting, line_ahead) if units or waiting or line_ahead else NOTHING_ON_POOL
    pool = pool_of(row)
    return pool.key, (pool, due)


def _seen(options: BatchOptions, rows: Sequence[Row]) -> Script[dict[Key, Pool]]:
    """Return each pool in its current state, with due legs counted as returned. Read the pools above them that are not among these rows."""
    found = dict(map(_with_due, rows))
    above = {(tenant, name) for tenant, pool in found for name in ancestors(pool)} - found.keys()
    others = dict[Key, tuple[Pool, DueOnPool]]()
    if above:
        more = yield from query_one("read_pools_by_id", (options.slot, *pool_keys(sorted(above), options.lanes)))
        others = dict(map(_with_due, more))
    known = {**others, **found}
    return {
        key: seen_pool(pool, due, [known[key[0], name] for name in ancestors(key[1]) if (key[0], name) in known])
        for key, (pool, due) in found.items()
    }


def find_pool(options: BatchOptions, query: FindPool) -> Script[Pool | None]:
    """Return one pool, with due legs counted as returned."""
    lane = lane_of_pool(query.key, options.lanes)
    rows = yield from find_settled(options, lane, "read_pool", (options.slot, lane, *query.key))
    return (yield from _seen(options, rows)).get(query.key)


def find_pools(options: BatchOptions, query: FindPools) -> Script[list[Pool | None]]:
    """Return several pools, in the order of the query."""
    if not query.keys:
        return []
    named = {(tenant, name) for tenant, pool in query.keys for name in path_of(pool)}
    rows = yield from query_one("read_pools_by_id", (options.slot, *pool_keys(sorted(named), options.lanes)))
    found = yield from _seen(options, rows)
    return [found.get(key) for key in query.keys]


def find_available(options: BatchOptions, query: FindAvailable) -> Script[bytes]:
    """Return which of these pools have a unit left, as one byte per pool."""
    if not query.pools:
        return b""
    keys = pool_keys([(query.tenant, id) for id in sorted(set(query.pools))], options.lanes)
    found = {id for (id,) in (yield from query_one("read_available", (options.slot, *keys)))}
    return bytes([id in found for id in query.pools])


def list_pools(options: BatchOptions, query: ListPools) -> Script[list[Pool]]:
    """Return a page of pools by id."""
    page = (query.after, query.prefix, beyond(query.prefix), query.prefix.startswith("~"), query.limit, query.archived)
    if query.entity is None:
        rows = yield from query_one("read_pools", (options.slot, query.tenant, *page))
    else:
        rows = yield from query_one("read_pools_of_entity", (options.slot, query.tenant, query.entity, *page))
    page_rows = sorted(rows, key=itemgetter(1))[: query.limit]
    return list((yield from _seen(options, page_rows)).values())


def next_deadline(options: BatchOptions, query: NextDeadline) -> Script[Slot | None]:
    """Return the first deadline on a pool."""
    rows = yield from query_one("next_deadline", (lane_of_pool(query.key, options.lanes), *query.key))
    return next((deadline for (deadline,) in rows), None)


def list_usage(options: BatchOptions, query: ListUsage) -> Script[list[AccountUsage]]:
    """Return the units that an account uses, by pool. Read on until the page is full, because all units of an account on a pool may be
    due."""
    found: list[AccountUsage] = []
    after: str | None = query.after
    while len(found) < query.limit and after is not None:
        ranges = ranges_behind(after, query.within or ("",))
        lowers, uppers = [lower for lower, _ in ranges], [upper for _, upper in ranges]
        asked = (options.slot, query.tenant, query.account, after, query.limit, lowers, uppers)
        rows = yield from query_one("read_usage", asked)
        page = sorted(rows, key=itemgetter(0))[: query.limit]
        found += [AccountUsage(pool, used - (due or 0), limit) for pool, used, limit, due in page if used != (due or 0)]
        after = page[-1][0] if len(page) == query.limit else None
    return found[: query.limit]


def find_record(options: BatchOptions, query: FindRecord) -> Script[Record | None]:
    """Return one record."""
    lane = lane_of_record(query.key, options.lanes)
    rows = yield from find_settled(options, lane, "read_record", (lane, *query.key))
    return next(map(record_of, rows), None)


def list_records(_: BatchOptions, query: ListRecords) -> Script[Page[Record]]:
    """Return a page of records of one kind."""
    rows = yield from query_one("read_records", (query.tenant, query.kind, query.after, query.limit, query.max_bytes))
    return page_of(map(record_of, sorted(rows, key=itemgetter(2))), record_bytes, query.limit, query.max_bytes)


def list_tenants(_: BatchOptions, query: ListTenants) -> Script[list[str]]:
    """Return a page of tenants that have pools."""
    rows = yield from query_one("read_tenants", (query.after, query.limit))
    return sorted({tenant for (tenant,) in rows})[: query.limit]


def list_kinds(_: BatchOptions, query: ListKinds) -> Script[list[str]]:
    """Return a page of kinds of records."""
    rows = yield from query_one("read_kinds", (query.tenant, query.after, query.limit))
    return sorted({kind for (kind,) in rows})[: query.limit]


_READS: Final[dict[type[Any], Callable[[BatchOptions, Any], Script[Any]]]] = {
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
    ListRecords: list_records,
    ListTenants: list_tenants,
    ListKinds: list_kinds,
}
