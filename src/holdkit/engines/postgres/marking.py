"""Marking a transaction, to see afterwards whether application code has ended it.

The mark is a savepoint under a random name: it is there as long as the transaction goes on and nobody went back behind it,
whatever words were used to end it. An aborted transaction and a lost connection are not this module's affair: whatever is
said next finds them.
"""

from __future__ import annotations

import secrets
from typing import Any, TypeAlias

import psycopg
from psycopg import pq

from ...errors import EngineError, HoldkitError
from ..driver_connections import transaction_ended

Connection: TypeAlias = psycopg.Connection[Any]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[Any]


class SavepointMark:
    """A mark in one connection's open transaction."""

    def __init__(self, connection: Connection | AsyncConnection) -> None:
        self._connection = connection
        self._name = f"holdkit_{secrets.token_hex(8)}"

    def make(self) -> SavepointMark:
        """Put it there, on a sync connection."""
        try:
            self._tell("savepoint")
        except psycopg.Error as error:
            raise _trouble(error) from error
        return self

    async def make_async(self) -> SavepointMark:
        """The same on an async one."""
        try:
            await self._tell_async("savepoint")
        except psycopg.Error as error:
            raise _trouble(error) from error
        return self

    def check(self) -> None:
        """Take the mark away; `InvalidRequest` if it is gone."""
        if self._open():
            try:
                self._tell("release savepoint")
            except psycopg.Error as error:
                raise _trouble(error) from error

    async def check_async(self) -> None:
        """The same on an async connection."""
        if self._open():
            try:
                await self._tell_async("release savepoint")
            except psycopg.Error as error:
                raise _trouble(error) from error

    def _open(self) -> bool:
        status = self._connection.pgconn.transaction_status
        if status == pq.TransactionStatus.IDLE:
            raise transaction_ended()
        return status == pq.TransactionStatus.INTRANS

    def _tell(self, verb: str) -> None:
        assert isinstance(self._connection, psycopg.Connection)
        psycopg.RawCursor(self._connection).execute(f"{verb} {self._name}".encode(), prepare=False)

    async def _tell_async(self, verb: str) -> None:
        assert isinstance(self._connection, psycopg.AsyncConnection)
        await psycopg.AsyncRawCursor(self._connection).execute(f"{verb} {self._name}".encode(), prepare=False)


def _trouble(error: psycopg.Error) -> HoldkitError:
    if error.sqlstate == "3B001":  # there is no such savepoint
        return transaction_ended()
    return EngineError(f"tx cannot be used: {str(error).strip()}")
