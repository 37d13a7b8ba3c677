"""Marking a transaction, to see afterwards whether application code has ended it.

The mark is a savepoint under a random name: it is there as long as the transaction goes on and nobody went back behind it,
whatever words were used to end it.
"""

from __future__ import annotations

import secrets
import sqlite3

from ..driver_connections import transaction_ended
from .driver import Driver, OnStatement


class SavepointMark:
    """A mark in one connection's open transaction."""

    def __init__(self, connection: sqlite3.Connection, on_statement: OnStatement | None) -> None:
        self._driver = Driver(connection, on_statement)
        self._name = f"holdkit_{secrets.token_hex(8)}"
        self._driver.tell(f"savepoint {self._name}")

    def check(self) -> None:
        """Take the mark away; `InvalidRequest` if it is gone."""
        try:
            self._driver.tell(f"release {self._name}")
        except sqlite3.Error as error:
            raise transaction_ended() from error

    async def check_async(self) -> None:
        """The same: the connection belongs to the loop's thread."""
        self.check()
