"""Our own connections: opened when they are needed, kept while they are good, never more than a bound.

A connection is lent to one thread at a time. One that comes back inside a transaction is rolled back, one that is broken is
dropped, one that has lain idle is tried before it is lent: a server that went away should not cost a caller an answer.
What a done answer survives is read on every new connection, and on one that is lent when it was read a while ago.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition

from ...errors import EngineError, Overloaded
from ..deadlines import at_most, within
from .driver import ROLLBACK, ConnectionFailed, Driver, StatementFailed
from .durability import DurabilityCheck
from .retrying import FEW, Retry, retry
from .watching import BRIEF

IDLE = 5.0
"""Seconds after which a connection is tried before it is lent."""


class Connections:
    """A small pool."""

    def __init__(self, connect: Callable[[], Driver], size: int, patience: float, durability: DurabilityCheck) -> None:
        self._connect, self._size, self._patience, self._durability = connect, size, patience, durability
        self._changed = Condition()
        self._free: list[tuple[float, Driver]] = []
        self._lent = 0
        self._pid = os.getpid()
        self.closed = False

    @contextmanager
    def one(self) -> Iterator[Driver]:
        """Lend a connection."""
        driver = self._take()
        try:
            yield driver
        finally:
            self._give_back(driver)

    @contextmanager
    def at_hand(self) -> Iterator[Driver | None]:
        """Lend one that lies ready and was used a moment ago, or none: for those who must not wait, nor read what is due to be
        read again. One that comes back inside a transaction is dropped, for the same reason."""
        driver = None
        with self._changed:
            if self._free and not self.closed and not self._durability.due and _just_used(*self._free[-1]):
                _, driver = self._free.pop()
                self._lent += 1
        try:
            yield driver
        finally:
            if driver is not None:
                if driver.busy or driver.in_transaction:
                    driver.close()
                self._give_back(driver)

    def _take(self) -> Driver:
        deadline = time.monotonic() + within(self._patience)
        with self._changed:
            while not self._free and self._lent >= self._size and not self.closed:
                if not self._changed.wait(deadline - time.monotonic()):
                    raise Overloaded(f"all {self._size} connections are in use", retry_after=1.0)
            if self.closed:
                raise EngineError("this engine is closed")
            self._lent += 1
            since, driver = self._free.pop() if self._free else (0.0, None)
        try:
            if driver is not None:
                if not self._durability.due and _just_used(since, driver):
                    return driver
                if driver.usable and self._answers(driver):
                    return driver
                driver.close()
            return retry(self._connected)
        except BaseException:
            with self._changed:
                self._lent -= 1
                self._changed.notify()
            raise

    def _give_back(self, driver: Driver) -> None:
        good = False
        try:
            if driver.usable and not driver.busy:
                if driver.in_transaction:
                    with at_most(BRIEF):
                        driver.say((ROLLBACK,))
                good = True
        except (ConnectionFailed, StatementFailed):
            pass  # dropped
        finally:
            with self._changed:
                self._lent -= 1
                if good and not self.closed:
                    self._free.append((time.monotonic(), driver))
                else:
                    driver.close()
                self._changed.notify()

    def drop_idle(self) -> None:
        """Hang up on all that are not lent: after a failover they lead to the wrong server."""
        with self._changed:
            idle, self._free = self._free, []
        for _, driver in idle:
            driver.close()

    def close(self) -> None:
        """Lend no more, and hang up."""
        self.closed = True
        if os.getpid() == self._pid:
            self.drop_idle()
            with self._changed:
                self._changed.notify_all()

    def _connected(self) -> Driver:
        """A new one; worth another attempt if it is lost at once."""
        driver = self._connect()
        try:
            return self._looked_at(driver)
        except (ConnectionFailed, StatementFailed) as failed:
            error = EngineError(f"a new connection cannot be used: {failed}")
            raise Retry(error, FEW) from failed

    def _answers(self, driver: Driver) -> bool:
        """Whether a connection that has lain idle is good still."""
        try:
            self._looked_at(driver)
        except (ConnectionFailed, StatementFailed):
            return False
        return True

    def _looked_at(self, driver: Driver) -> Driver:
        """A connection, with what is in force there noted; hung up where that cannot be, or must not be, relied on."""
        try:
            with at_most(BRIEF):
                self._durability.look(driver)
        except BaseException:
            driver.close()
            raise
        return driver


def _just_used(since: float, driver: Driver) -> bool:
    return time.monotonic() - since < IDLE and driver.usable
