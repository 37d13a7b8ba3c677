"""Connections that wait for an answer, and what ends a wait that will never get one.

A host that was stopped, or cut off from the network, keeps its connections open and says nothing. How long an answer may take
cannot be told from here: a commit waits for its standby, a statement for a lock. But somebody who has waited for `QUIET` seconds has
reason to ask whether another host has taken over, and here that is asked, for all of them at once: every other host is tried
side by side, again and again as long as somebody waits. If one of them is a newer primary (`hosts`), every wait for an older one
ends: its socket is shut down, and whoever waits there finds the connection lost. Before COMMIT was sent that did nothing, and is
tried again with the new primary; after, it is unknown, and asked about there. The same end comes at the moment until which a wait
may last, for those that cannot look at it by themselves.

One thread, which is there while anybody waits and a little longer. A socket is shut down under the lock under which waits begin and
end, and a connection is closed only after its wait has ended: so never somebody else's who got the same number.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final, Protocol

import psycopg
from psycopg import pq

from .hosts import Host, Opened, Primary, open_one
from .racing import NobodyCame, Race

TICK: Final = 0.25
"""Seconds between two looks."""
QUIET: Final = 0.75
"""Seconds without an answer after which the other hosts are asked."""
RETRYABLE: Final = 1.0
"""Seconds that asking may take, and after which it is done again if somebody has answered."""
BRIEF: Final = 2.0
"""Seconds for an answer without which a connection is dropped, and nothing is lost."""
IDLE: Final = 20
"""Looks without anybody waiting after which the thread ends."""


class Waiting(Protocol):
    """Whoever waits on a connection of its own."""

    pgconn: pq.abc.PGconn
    primary: Primary | None


class Watch:
    """The waits of one engine."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._hosts = hosts
        self.several = len(hosts) > 1
        """Whether there is another host to go to."""
        self._lock = threading.Lock()
        self._waits: dict[Waiting, tuple[float, float | None]] = {}
        self._thread: threading.Thread | None = None
        self._asked = 0.0  # not before then again

    def begin(self, waiting: Waiting, until: float | None = None) -> None:
        """It waits from now on, at most until that moment of `time.monotonic`."""
        with self._lock:
            self._waits[waiting] = (time.monotonic(), until)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="holdkit-watch", daemon=True)
                self._thread.start()

    def end(self, waiting: Waiting) -> None:
        """It has its answer, or hangs up now."""
        with self._lock:
            self._waits.pop(waiting, None)

    def _run(self) -> None:
        idle = 0
        while True:
            time.sleep(TICK)
            with self._lock:
                idle = 0 if self._waits else idle + 1
                if idle > IDLE:
                    self._thread = None
                    return
                now = time.monotonic()
                asks = (
                    self.several and self._asked < now and any(now - since > QUIET for since, _ in self._waits.values())
                )
            if asks:
                self._ask_around()
            self._end_waits()

    def _ask_around(self) -> None:
        """Try every host: whoever is a newer primary is remembered as such by whoever opens a connection to it. If any takes
        writes, there is no hurry to ask again."""
        race = Race([partial(open_one, host) for host in self._hosts], Opened.close)
        with suppress(NobodyCame):
            race.run(RETRYABLE, best=Opened.newness).close()
            self._asked = time.monotonic() + RETRYABLE

    def _end_waits(self) -> None:
        with self._lock:
            now = time.monotonic()
            for waiting, (_, until) in tuple(self._waits.items()):
                outdated = waiting.primary is not None and waiting.primary.outdated
                if outdated or (until is not None and until <= now):
                    del self._waits[waiting]
                    _shut(waiting.pgconn)


def _shut(pgconn: pq.abc.PGconn) -> None:
    """Whoever waits for this connection finds it lost."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(pgconn.socket)) as line:
        line.shutdown(socket.SHUT_RDWR)
