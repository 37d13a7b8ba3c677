"""The same three variants, for asyncio: psycopg's own async connections, no threads."""

from __future__ import annotations

import asyncio
from typing import Any

from psycopg import AsyncConnection, IsolationLevel
from psycopg.errors import DeadlockDetected, SerializationFailure, UniqueViolation
from psycopg_pool import AsyncConnectionPool

from ..by_hand import Held, NotGranted
from .drafts import ATTEMPTS, GaveUp, decide, draft, ending, held, pause, replay
from .statements import CONFIRM, LOCK, READ, RECALL, TAKE, WRITE
from .threads import Way


class AsyncByHandPostgres:
    """One database, one variant, that many connections. Call `open` first."""

    def __init__(self, dsn: str, way: Way, connections: int) -> None:
        self._way = way
        self._pool = AsyncConnectionPool(
            dsn, min_size=connections, max_size=connections, timeout=60, open=False,
            kwargs={"autocommit": True, "prepare_threshold": 0}, configure=self._configure,
        )  # fmt: skip

    async def open(self) -> None:
        """Connect."""
        await self._pool.open(wait=True)

    async def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str) -> Held:
        """Take units until a deadline, or raise."""
        one = draft(pool, quantity, ttl, op)
        for attempt in range(ATTEMPTS):
            try:
                async with self._pool.connection() as connection:
                    if self._way == "one statement":
                        return await self._take(connection, one)
                    return await self._place(connection, one)
            except (SerializationFailure, DeadlockDetected, UniqueViolation):
                await asyncio.sleep(pause(attempt))
        raise GaveUp(pool)

    async def confirm(self, held: Held, *, op: str) -> None:
        """End a hold for good, in one guarded statement, or raise."""
        one = ending(held, op)
        async with self._pool.connection() as connection:
            ended = await (await connection.execute(CONFIRM, one)).fetchone()
            if ended is None and await (await connection.execute(RECALL, one)).fetchone() is None:
                raise NotGranted(held.id)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.close()

    async def _configure(self, connection: AsyncConnection[Any]) -> None:
        if self._way == "serializable":
            await connection.set_isolation_level(IsolationLevel.SERIALIZABLE)

    async def _place(self, connection: AsyncConnection[Any], one: dict[str, Any]) -> Held:
        read = READ if self._way == "serializable" else LOCK
        async with connection.transaction():
            whole = decide(one, await (await connection.execute(read, one)).fetchone())
            if isinstance(whole, Held):
                return whole
            await connection.execute(WRITE, whole)
        return held(one, whole["fence"])

    async def _take(self, connection: AsyncConnection[Any], one: dict[str, Any]) -> Held:
        row = await (await connection.execute(TAKE, one)).fetchone()
        if row is not None:
            return held(one, row[0])
        if (before := await (await connection.execute(RECALL, one)).fetchone()) is not None:
            return replay(one, before)
        raise NotGranted(one["pool"])
