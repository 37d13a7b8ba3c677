"""Every variant behind the same methods: how its database is prepared, opened, and checked.

This runs in the worker processes, each with the `holdkit` and the `bench` of one revision.
"""

from __future__ import annotations

import os
from contextlib import closing
from functools import cached_property
from typing import Any, Final, Literal, Protocol, TypeAlias

import psycopg
from psycopg_pool import ConnectionPool

import holdkit

from ..by_hand_postgres import (
    ORDER,
    ORDERS,
    AsyncByHandPostgres,
    ByHandPostgres,
    Way,
    count_rows,
    create_pools,
    expect_sound,
    install,
)
from ..by_hand_redis import AsyncByHandRedis, ByHandRedis
from ..rows import BenchFailed
from .scenarios import TOTAL, Work, pool_names

Variant: TypeAlias = Way | Literal["one each", "redis", "before", "ordinary", "ours"]
BY_HAND: Final[tuple[Way, ...]] = ("serializable", "row lock", "one statement")
EACH: Final = "one each"
"""The guarded statement, and every caller has a connection of its own."""
HOLDKIT: Final = ("before", "ordinary", "ours")
"""Another revision of the project, this one without guarded batches, and this one."""
REDIS: Final = "redis"
CONNECTIONS: Final = 4
"""Of one process, by hand: with more, two processors and a busy row were slower. Each of several processes has half as many."""


class Store(Protocol):
    """Something that can place holds."""

    def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str) -> Any: ...
    def confirm(self, held: Any, /, *, op: str) -> object: ...
    def order(self, pool: str, /, *, ttl: float, op: str) -> object: ...
    def close(self) -> None: ...


class AsyncStore(Protocol):
    """The async variant."""

    async def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str) -> Any: ...
    async def confirm(self, held: Any, /, *, op: str) -> object: ...
    async def close(self) -> None: ...


class Ours:
    """Holdkit, and connections of the caller's own for `tx=`."""

    def __init__(self, variant: Variant, dsn: str, connections: int) -> None:
        self._dsn, self._connections = dsn, connections
        self.kernel = without_guards(dsn) if variant == "ordinary" else holdkit.connect(dsn)
        self.hold, self.confirm = self.kernel.hold, self.kernel.confirm

    @cached_property
    def _pool(self) -> ConnectionPool[psycopg.Connection[Any]]:
        options = {"autocommit": True, "prepare_threshold": 0}
        return ConnectionPool(self._dsn, min_size=1, max_size=self._connections, kwargs=options, open=True)

    def order(self, pool: str, /, *, ttl: float, op: str) -> None:
        """Take a unit and note the order that needs it, in one transaction."""
        with self._pool.connection() as connection, connection.transaction():
            held = self.kernel.hold(pool, 1, ttl=ttl, op=op, tx=connection)
            connection.execute(ORDER, (op, held.id))

    def close(self) -> None:
        """Close everything."""
        if "_pool" in self.__dict__:
            self._pool.close()
        self.kernel.close()


def without_guards(dsn: str) -> holdkit.Kernel:
    """A kernel whose batches all go the ordinary way."""
    from holdkit.engines.postgres import PostgresEngine
    from holdkit.kernel._sync.executor import Executor

    return holdkit.Kernel(Executor(PostgresEngine(dsn, guarded=False), os.urandom))


async def without_guards_async(dsn: str) -> holdkit.AsyncKernel:
    """The same for tasks."""
    from holdkit.engines.postgres import PostgresEngine
    from holdkit.kernel._async.executor import AsyncExecutor

    return holdkit.AsyncKernel(AsyncExecutor(PostgresEngine(dsn, guarded=False), os.urandom))


def open_threads(variant: Variant, place: str, callers: int, connections: int = CONNECTIONS) -> Store:
    """A store for threads; a hand-written variant has at most that many connections."""
    if variant in HOLDKIT:
        return Ours(variant, place, min(callers, connections))
    if variant == "redis":
        return ByHandRedis(place)
    return ByHandPostgres(place, way_of(variant), callers if variant == EACH else min(callers, connections))


async def open_tasks(variant: Variant, place: str, callers: int, connections: int = CONNECTIONS) -> AsyncStore:
    """A store for tasks."""
    if variant == "ordinary":
        return await without_guards_async(place)
    if variant in HOLDKIT:
        return await holdkit.connect_async(place)
    if variant == "redis":
        return await AsyncByHandRedis.open(place, min(callers, connections))
    store = AsyncByHandPostgres(place, way_of(variant), callers if variant == EACH else min(callers, connections))
    await store.open()
    return store


def way_of(variant: Variant) -> Way:
    """How a hand-written variant places a hold."""
    return next((way for way in BY_HAND if way == variant), "one statement")


def prepare(variant: Variant, place: str, pools: int) -> None:
    """Tables and pools, nothing held."""
    names = pool_names(pools)
    if variant == "redis":
        with closing(ByHandRedis(place)) as store:
            store.prepare(names, TOTAL)
        return
    if variant not in HOLDKIT:
        install(place)
        create_pools(place, names, TOTAL)
        return
    if place.startswith("postgres"):
        holdkit.migrate(place)
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute(ORDERS)
    with closing(holdkit.connect(place)) as kernel:
        kernel.apply([holdkit.commands.CreatePool(id=pool, total=TOTAL) for pool in names])


def expect_whole(variant: Variant, place: str, holds: int, work: Work = "hold") -> None:
    """Nothing is oversold, every granted hold exists, and Holdkit's rows agree with its journal."""
    confirmed = work == "lifecycle"
    if variant == "redis":
        with closing(ByHandRedis(place)) as store:
            counted = store.counted()
        found, expected = counted, (0, holds) if confirmed else (holds, 0)
        if found != expected:
            raise BenchFailed(f"redis: expected {expected} units held and consumed, found {found}")
        return
    if variant not in HOLDKIT:
        expect_sound(variant, count_rows(place), holds, confirmed=confirmed)
        return
    with closing(holdkit.connect(place)) as kernel:
        differences = [str(difference) for difference in kernel.admin.verify().differences]
        if differences:
            raise BenchFailed(f"{variant}: verify found {differences[:3]}")
        taken, after = 0, ""
        while page := kernel.pools(after=after, limit=100):
            if over := [pool.id for pool in page if pool.held + pool.consumed > pool.total]:
                raise BenchFailed(f"{variant}: oversold {over[:3]}")
            taken += sum(pool.consumed if confirmed else pool.held for pool in page)
            after = page[-1].id
        if taken != holds:
            raise BenchFailed(f"{variant}: {holds} holds were granted, {taken} units are taken")
