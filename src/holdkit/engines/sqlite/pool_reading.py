"""Reads about pools: what is due on them, the pools above them, their lines, and what accounts use of them.

Never shows a due leg as held, never writes, never waits for a writer. The pools above are read by a statement of their own, only where
an id says that there are any; a command between the two statements may be seen on one of the pools and not on the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from ...core.bounds import Limits
from ...core.model import MAX_SLOT, Key, Pool, Slot, StoredHold
from ...core.pages import beyond, ranges_behind
from ...core.reading import (
    AccountUsage,
    FindAvailable,
    FindPool,
    FindPools,
    ListPools,
    ListUsage,
    NextDeadline,
)
from ...core.seen import NOTHING_ON_POOL, DueOnPool, seen_pool
from ...core.trees import ancestors
from .driver import Driver, Row
from .rows import BESIDE_POOL, keys_json, pool_of


class At(NamedTuple):
    """The connection and the slot at which a query is answered."""

    driver: Driver
    limits: Limits
    now: Slot


def find_pool(at: At, query: FindPool) -> Pool | None:
    """Return a pool, its due legs counted as returned."""
    pools = _seen(at, at.driver.ask("read_pool", {"tenant": query.key[0], "id": query.key[1], "now": at.now}))
    return pools[0] if pools else None


def find_pools(at: At, query: FindPools) -> list[Pool | None]:
    """Return several pools, in the order asked."""
    found: dict[Key, Pool] = {}
    for tenant, names in by_tenant(query.keys):
        rows = at.driver.ask("read_pools_by_id", {"tenant": tenant, "ids": names, "now": at.now})
        found.update({pool.key: pool for pool in _seen(at, rows)})
    return [found.get(key) for key in query.keys]


def by_tenant(keys: Sequence[Key]) -> list[tuple[str, str]]:
    """Group keys by tenant: each tenant with its ids for `json_each`."""
    return [(tenant, keys_json([name for its, name in keys if its == tenant])) for tenant in {key[0] for key in keys}]


def find_available(at: At, query: FindAvailable) -> bytes:
    """Return which of these pools have a unit left."""
    found = set(at.driver.ask("read_available", (query.tenant, keys_json(query.pools), at.now)))
    return bytes([(index,) in found for index in range(len(query.pools))])


BEHIND_ALL_TEXT: Final = b""  # SQLite sorts every blob behind every text


def list_pools(at: At, query: ListPools) -> list[Pool]:
    """Return a page of pools by id."""
    name = "read_pools"
    parameters: dict[str, Any] = {
        "tenant": query.tenant, "after": query.after, "lower": max(query.after, query.prefix),
        "upper": beyond(query.prefix) or BEHIND_ALL_TEXT, "now": at.now,
        "reserved": query.prefix.startswith("~"), "limit": query.limit, "archived": query.archived}  # fmt: skip
    if query.entity is not None:
        name, parameters = "read_pools_of_entity", {**parameters, "entity": query.entity}
    return _seen(at, at.driver.ask(name, parameters))


def _seen(at: At, rows: list[Row]) -> list[Pool]:
    """Return the pools of one tenant as they show now."""
    above: dict[str, tuple[Pool, DueOnPool]] = {}
    shown = [(pool_of(row), _due(row)) for row in rows]
    names = sorted({name for pool, _ in shown for name in ancestors(pool.id)})
    if names:
        parameters = {"tenant": shown[0][0].tenant, "ids": keys_json(names), "now": at.now}
        for row in at.driver.ask("read_pools_by_id", parameters):
            pool = pool_of(row)
            above[pool.id] = pool, _due(row)
    return [seen_pool(pool, due, [above[name] for name in ancestors(pool.id) if name in above]) for pool, due in shown]


def _due(row: Row) -> DueOnPool:
    due_units, due_waiters, can_serve = row[BESIDE_POOL]
    if not due_units and can_serve is None:
        return NOTHING_ON_POOL
    return DueOnPool(due_units or 0, due_waiters or 0, bool(can_serve))


def next_deadline(at: At, query: NextDeadline) -> Slot | None:
    """Return the first deadline on a pool."""
    ((deadline,),) = at.driver.ask("next_deadline", query.key)
    return None if deadline == MAX_SLOT else deadline


def count_waiting_before(at: At, hold: StoredHold, now: Slot, limit: int) -> int:
    """Count the holds that wait in front of a waiting hold and are not due."""
    place = (hold.tenant, hold.legs[0].pool, hold.number, now, limit)
    ((count,),) = at.driver.ask("count_ahead", place)
    return int(count)


def list_usage(at: At, query: ListUsage) -> list[AccountUsage]:
    """Return what an account uses, by pool, without legs that are due."""
    rows = chain.from_iterable(
        at.driver.each("read_usage", {"tenant": query.tenant, "account": query.account, "after": query.after,
                                      "lower": lower, "upper": upper or BEHIND_ALL_TEXT, "now": at.now})
        for lower, upper in ranges_behind(query.after, query.within or ("",))
    )  # fmt: skip
    found = (AccountUsage(pool, used - (due or 0), limit) for pool, used, limit, due in rows)
    return list(islice((usage for usage in found if usage.used), query.limit))
