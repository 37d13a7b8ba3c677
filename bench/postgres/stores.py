"""Every variant behind the same methods: how its database is prepared, opened, and checked."""

from __future__ import annotations

from contextlib import closing
from typing import Final, Literal, Protocol, TypeAlias

import holdkit
from holdkit.testing.postgres import ServerAddress

from ..by_hand_postgres import AsyncByHandPostgres, ByHandPostgres, Way, count_rows, create_pools, expect_sound, install
from ..rows import BenchFailed
from .scenarios import TOTAL, pool_names

Variant: TypeAlias = Way | Literal["ours"]
BY_HAND: Final[tuple[Way, ...]] = ("serializable", "row lock", "one statement")
VARIANTS: Final[tuple[Variant, ...]] = (*BY_HAND, "ours")
CONNECTIONS: Final = 4
"""Of one process, by hand: with more, two processors and a busy row were slower. Each of several processes has half as many."""


class Store(Protocol):
    """Something that can place holds."""

    def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str) -> object: ...
    def close(self) -> None: ...


class AsyncStore(Protocol):
    """The async variant."""

    async def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str) -> object: ...
    async def aclose(self) -> None: ...


def open_threads(variant: Variant, dsn: str, callers: int, connections: int = CONNECTIONS) -> Store:
    """A store for threads; a hand-written variant has at most that many connections."""
    if variant == "ours":
        return holdkit.connect(dsn)
    return ByHandPostgres(dsn, variant, min(callers, connections))


async def open_tasks(variant: Variant, dsn: str, callers: int, connections: int = CONNECTIONS) -> AsyncStore:
    """A store for tasks."""
    if variant == "ours":
        return await holdkit.connect_async(dsn)
    store = AsyncByHandPostgres(dsn, variant, min(callers, connections))
    await store.open()
    return store


def template(server: ServerAddress, variant: Variant, pools: int) -> str:
    """The database that each run of this variant copies: tables and pools, nothing held. The hand-written variants share one."""

    def prepare(dsn: str) -> None:
        if variant != "ours":
            install(dsn)
            create_pools(dsn, pool_names(pools), TOTAL)
            return
        holdkit.migrate(dsn)
        with closing(holdkit.connect(dsn)) as kernel:
            kernel.apply([holdkit.CreatePool(id=pool, total=TOTAL) for pool in pool_names(pools)])

    return server.template(f"{'ours' if variant == 'ours' else 'by_hand'}_{pools}", prepare)


def expect_whole(variant: Variant, dsn: str, holds: int) -> None:
    """Nothing is oversold, every granted hold exists, and Holdkit's rows agree with its journal."""
    if variant != "ours":
        expect_sound(variant, count_rows(dsn), holds)
        return
    with closing(holdkit.connect(dsn)) as kernel:
        differences = [str(difference) for difference in kernel.verify().differences]
        if differences:
            raise BenchFailed(f"ours: verify found {differences[:3]}")
        held, after = 0, ""
        while page := kernel.pools(after=after, limit=100):
            if over := [pool.id for pool in page if pool.held + pool.consumed > pool.total]:
                raise BenchFailed(f"ours: oversold {over[:3]}")
            held, after = held + sum(pool.held for pool in page), page[-1].id
        if held != holds:
            raise BenchFailed(f"ours: {holds} holds were granted, {held} units are held")
