"""The hosts of an address: finding the newest primary among them, and opening a connection to it.

Theory of operation. An address may name several hosts; one of them takes writes. libpq tries them one after the other, so a host that hangs
costs every caller its timeout. We open each with a connection string of its own, side by side (`Race`), each attempt on its own thread,
because its wait may not be interruptible: for a name server, or for a host that accepts a connection and then says nothing. These threads
are never joined; one that succeeds too late closes its connection. The host that answered last is preferred: it begins, and the others
begin `STAGGER` seconds later, or when it has failed. With several hosts a failed attempt is repeated until time is up, because during a
failover every host fails for a moment.

A *primary* is known by the cluster's system identifier and its timeline, which every promotion raises. Two hosts may both take writes: the
new primary, and the old one that was cut off and has come back. So this process remembers the highest timeline that it has seen of each
cluster, and uses no connection to an older one: neither a new one, nor an idle one, nor one that waits for an answer
(`waiting.PrimaryWatch`). A process that has seen none yet asks all hosts, and takes the newest of those that answer at about the same time.
If a server does not report its timeline (some only speak PostgreSQL's protocol), a connection to it never counts as outdated.

The timelines are kept in a dictionary of sets, without a lock, so that a forked child never inherits a locked lock.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, NamedTuple, TypeVar

import psycopg
from msgspec import Struct
from psycopg import pq

from .. import deadlines
from .driver import READ, WRITE, Steps, run_on_thread

T = TypeVar("T")

ALONE: Final = 10.0
"""Seconds for opening a connection where the address names one host, unless it says `connect_timeout`."""
OF_SEVERAL: Final = 2.0
"""Seconds for opening a connection to each of several hosts, and to all of them together."""
TCP: Final = {"tcp_user_timeout": "10000", "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3"}
"""A peer that has vanished is noticed after about 11 seconds in either direction, unless the address says otherwise."""
_OK: Final = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
_IDENTIFY: Final = """
    select (select system_identifier from pg_catalog.pg_control_system())::text,
           case when not pg_catalog.pg_is_in_recovery()
                then pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) end
"""


class Host(Struct, frozen=True):
    """One host of an address."""

    name: str
    conninfo: str
    """For libpq. It may hold a password, so it is never shown."""
    seconds: float
    """For opening a connection and setting it up."""


class Primary(NamedTuple):
    """A server that takes writes."""

    system: str
    timeline: int
    seen: set[int]
    """All timelines that this process has seen of the cluster."""

    @property
    def outdated(self) -> bool:
        """Whether this process has seen a newer primary of the same cluster."""
        return self.timeline < max(self.seen)


class HostConnection(NamedTuple):
    """A psycopg connection, its host and its primary."""

    connection: psycopg.Connection[Any]
    host: Host
    primary: Primary | None

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    @property
    def outdated(self) -> bool:
        """Whether it leads to a primary that was replaced."""
        return self.primary is not None and self.primary.outdated

    def timeline(self) -> int:
        """Return the timeline of its primary; 0 if that is not known."""
        return 0 if self.primary is None else self.primary.timeline


_timelines: dict[str, set[int]] = {}
"""The timelines that this process has seen, by system identifier."""
_preferred: dict[tuple[str, ...], str] = {}
"""The host that answered last, by the names of all hosts of an address."""


def hosts_of(parsed: Mapping[str, Any]) -> tuple[Host, ...]:
    """Return each host of a connection string, with a connection string of its own. (A service file counts as one host.)"""
    given = {
        name: str(parsed.get(name) or os.environ.get(f"PG{name.upper()}") or "").split(",")
        for name in ("host", "hostaddr", "port")
    }
    count = max(map(len, given.values())) if "service" not in parsed else 1
    if any(len(values) not in (1, count) for values in given.values()) or count == 1:
        return (_host(parsed, {}, ALONE),)
    several = [{name: values[index % len(values)] for name, values in given.items()} for index in range(count)]
    return tuple(_host(parsed, each, OF_SEVERAL) for each in several)


def _host(parsed: Mapping[str, Any], own: Mapping[str, str], seconds: float) -> Host:
    options = {name: value for name, value in {**parsed, **own}.items() if value != ""}
    seconds = float(options.setdefault("connect_timeout", int(seconds))) or ALONE
    name = options.get("host") or options.get("hostaddr") or "the default socket"
    port = own.get("port") or options.get("port")
    return Host(f"{name}:{port}" if port else str(name), psycopg.conninfo.make_conninfo("", **options), seconds)


def open_one(host: Host, settings: str = "", *, autocommit: bool = True) -> HostConnection:
    """Open a connection to this host and set it up. Raise if it leads to a primary that was replaced."""
    connection: psycopg.Connection[Any] = psycopg.connect(host.conninfo, autocommit=autocommit)
    try:
        if settings:
            _execute(connection, host, settings)
        primary = _identify(connection, host)
        if primary is not None:
            _remember(primary)
    except BaseException:
        connection.close()
        raise
    return HostConnection(connection, host, primary)


def _remember(primary: Primary) -> None:
    """Remember the timeline of this primary. Raise if a newer one was seen."""
    primary.seen.add(primary.timeline)
    if primary.outdated:
        raise psycopg.OperationalError(
            f"this server is on timeline {primary.timeline}, and this process has seen the cluster's primary on {max(primary.seen)}: "
            "it was replaced. If it is the right one all the same (an older copy was restored), restart this process"
        )


def open_any(hosts: Sequence[Host], settings: str = "", *, autocommit: bool = True) -> HostConnection:
    """Open a connection to the host that takes writes. Raise `psycopg.Error` if that fails or takes too long."""
    names = tuple(host.name for host in hosts)
    preferred = _preferred.get(names)
    ordered = sorted(hosts, key=lambda host: host.name != preferred)
    race = Race([partial(open_one, host, settings, autocommit=autocommit) for host in ordered], HostConnection.close)
    seconds = deadlines.within(max(host.seconds for host in hosts))
    unknown = preferred is None and len(hosts) > 1
    try:
        opened = race.run(seconds, best=HostConnection.timeline if unknown else None)
    except AllFailed as failed:
        raise _explain(ordered, failed.errors, seconds) from failed
    _preferred[names] = opened.host.name
    return opened


def _explain(hosts: Sequence[Host], errors: Mapping[int, Exception], seconds: float) -> Exception:
    for error in errors.values():
        if not isinstance(error, psycopg.Error):
            return error
    if len(hosts) == 1 and errors:
        return errors[0]
    messages = [
        f"{host.name}: {first_line(errors[index]) if index in errors else f'no answer within {seconds:.1f} s'}"
        for index, host in enumerate(hosts)
    ]
    return psycopg.OperationalError("; ".join(messages))


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, to be quoted in another message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _identify(connection: psycopg.Connection[Any], host: Host) -> Primary | None:
    """Return the primary that this connection leads to; None for a standby, or a server that does not report its timeline."""
    try:
        (result,) = _execute(connection, host, _IDENTIFY)
    except psycopg.OperationalError:
        if connection.pgconn.status != pq.ConnStatus.OK:
            raise
        return None
    system, walfile = result.get_value(0, 0), result.get_value(0, 1)
    if walfile is None or system is None:
        return None
    return Primary(system.decode(), int(walfile[:8], 16), _timelines.setdefault(system.decode(), set()))


def _execute(connection: psycopg.Connection[Any], host: Host, text: str) -> list[pq.abc.PGresult]:
    """Run statements without parameters, within the host's time."""
    pgconn = connection.pgconn
    try:
        results = run_on_thread(_exchange(pgconn, text), pgconn.socket, host.seconds)
    except OSError as error:  # it does not answer
        connection.close()
        raise psycopg.OperationalError(str(error)) from error
    for result in results:
        if result.status not in _OK:
            raise psycopg.OperationalError(result.get_error_message().strip())
    return results


def _exchange(pgconn: pq.abc.PGconn, text: str) -> Steps[list[pq.abc.PGresult]]:
    pgconn.send_query(text.encode())
    results: list[pq.abc.PGresult] = []
    while True:
        sending = pgconn.flush() == 1
        if sending or pgconn.is_busy():
            yield READ | WRITE if sending else READ
            pgconn.consume_input()
        elif (result := pgconn.get_result()) is None:
            return results
        else:
            results.append(result)


# Racing

STAGGER: Final = 0.25
"""Seconds that the preferred host has to itself, and that a first answer waits for a better one."""
PAUSES: Final = (0.1, 0.2, 0.4)
"""Seconds before the second, the third and every later attempt."""


class AllFailed(Exception):
    """No attempt succeeded in time. `errors` has the last error of each attempt that failed."""

    def __init__(self, errors: dict[int, Exception]) -> None:
        super().__init__("; ".join(str(error) for error in errors.values()) or "no answer in time")
        self.errors = errors


class Race(Generic[T]):
    """Runs several attempts side by side. The first success wins, and `drop` gets the results that come too late."""

    def __init__(self, attempts: Sequence[Callable[[], T]], drop: Callable[[T], None]) -> None:
        self._attempts, self._drop = attempts, drop
        self._results: SimpleQueue[tuple[int, T | None, Exception | None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._over = False
        self._running: set[int] = set()
        self._tries = [0] * len(attempts)
        self._due: dict[int, float] = {}
        self._errors: dict[int, Exception] = {}

    def run(self, seconds: float, *, best: Callable[[T], float] | None = None) -> T:
        """Return the result of the first attempt that succeeds. With `best`, begin all at once, and return the greatest of the results that
        come at about the same time. Raise `AllFailed` if no attempt succeeds."""
        now = time.monotonic()
        end = now + seconds
        self._due = {index: now + (STAGGER if index and best is None else 0.0) for index in range(len(self._attempts))}
        found: list[T] = []
        try:
            while not self._decided(found, end, best is not None):
                self._begin_due()
                result = self._next_result(end)
                if result is not None and result[1] is not None:
                    found.append(result[1])
                    end = min(end, time.monotonic() + STAGGER)
                elif result is not None and result[2] is not None:
                    self._failed(result[0], result[2])
            if not found:
                raise AllFailed(dict(sorted(self._errors.items())))
            chosen = found[0] if best is None else max(found, key=best)
            found.remove(chosen)
            return chosen
        finally:
            for late in (*found, *self._end()):
                self._drop(late)

    def _decided(self, found: list[T], end: float, wait_for_all: bool) -> bool:
        if found and not (wait_for_all and self._running):
            return True
        return time.monotonic() >= end or not (self._running or self._due)

    def _begin_due(self) -> None:
        now = time.monotonic()
        for index in [index for index, when in self._due.items() if when <= now]:
            del self._due[index]
            self._running.add(index)
            self._tries[index] += 1
            threading.Thread(target=self._try, args=(index,), name="holdkit-opening", daemon=True).start()

    def _next_result(self, end: float) -> tuple[int, T | None, Exception | None] | None:
        try:
            result = self._results.get(timeout=max(0.0, min([end, *self._due.values()]) - time.monotonic()))
        except Empty:
            return None
        self._running.discard(result[0])
        return result

    def _failed(self, index: int, error: Exception) -> None:
        self._errors[index] = error
        now = time.monotonic()
        for other in self._due:
            if not self._tries[other]:
                self._due[other] = now  # the preferred host has failed: the others start now
        if len(self._attempts) > 1:
            self._due[index] = now + PAUSES[min(self._tries[index], len(PAUSES)) - 1]

    def _try(self, index: int) -> None:
        result: T | None = None
        failed: Exception | None = None
        try:
            result = self._attempts[index]()
        except Exception as error:  # noqa: BLE001 - reported with the result
            failed = error
        with self._lock:
            over = self._over
            if not over:
                self._results.put((index, result, failed))
        if over and result is not None:
            self._drop(result)

    def _end(self) -> list[T]:
        """Treat every later result as too late, and return the results that were not taken yet."""
        with self._lock:
            self._over = True
        late: list[T] = []
        while not self._results.empty():
            result = self._results.get()[1]
            if result is not None:
                late.append(result)
        return late
