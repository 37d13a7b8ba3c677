"""The three variants, for threads: each caller takes a connection from the pool for one transaction."""

from __future__ import annotations

import time
from typing import Any, Literal, TypeAlias

from psycopg import Connection, IsolationLevel
from psycopg.errors import DeadlockDetected, SerializationFailure, UniqueViolation
from psycopg_pool import ConnectionPool

from ..by_hand import Held, NotGranted
from .drafts import ATTEMPTS, GaveUp, decide, draft, ending, held, pause, replay
from .statements import CONFIRM, LOCK, ORDER, READ, RECALL, TAKE, WRITE

Way: TypeAlias = Literal["serializable", "row lock", "one statement"]


class ByHandPostgres:
    """One database, one variant, that many connections."""

    def __init__(self, dsn: str, way: Way, connections: int) -> None:
        self._way = way
        self._pool = ConnectionPool(
            dsn, min_size=connections, max_size=connections, timeout=60, open=False,
            kwargs={"autocommit": True, "prepare_threshold": 0}, configure=self._configure,
        )  # fmt: skip
        self._pool.open(wait=True)

    def hold(self, pool: str, quantity: int, /, *, ttl: float, op: str) -> Held:
        """Take units until a deadline, or raise."""
        one = draft(pool, quantity, ttl, op)
        for attempt in range(ATTEMPTS):
            try:
                with self._pool.connection() as connection:
                    return self._take(connection, one) if self._way == "one statement" else self._place(connection, one)
            except (SerializationFailure, DeadlockDetected, UniqueViolation):
                time.sleep(pause(attempt))
        raise GaveUp(pool)

    def confirm(self, held: Held, *, op: str) -> None:
        """End a hold for good, in one guarded statement, or raise."""
        one = ending(held, op)
        with self._pool.connection() as connection:
            if (
                connection.execute(CONFIRM, one).fetchone() is None
                and connection.execute(RECALL, one).fetchone() is None
            ):
                raise NotGranted(held.id)

    def order(self, pool: str, /, *, ttl: float, op: str) -> Held:
        """Take a unit and note the order that needs it, in one transaction."""
        with self._pool.connection() as connection, connection.transaction():
            held = self._take(connection, draft(pool, 1, ttl, op))
            connection.execute(ORDER, (op, held.id))
        return held

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def _configure(self, connection: Connection[Any]) -> None:
        if self._way == "serializable":
            connection.isolation_level = IsolationLevel.SERIALIZABLE

    def _place(self, connection: Connection[Any], one: dict[str, Any]) -> Held:
        """Begin, read, write, commit. (Pipelining was no faster here, and slower with async.)"""
        read = READ if self._way == "serializable" else LOCK
        with connection.transaction():
            whole = decide(one, connection.execute(read, one).fetchone())
            if isinstance(whole, Held):
                return whole
            connection.execute(WRITE, whole)
        return held(one, whole["fence"])

    def _take(self, connection: Connection[Any], one: dict[str, Any]) -> Held:
        """One round trip."""
        row = connection.execute(TAKE, one).fetchone()
        if row is not None:
            return held(one, row[0])
        if (before := connection.execute(RECALL, one).fetchone()) is not None:
            return replay(one, before)
        raise NotGranted(one["pool"])
