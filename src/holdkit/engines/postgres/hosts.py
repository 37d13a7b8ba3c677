"""The hosts of an address: which of them is asked first, and which primary is the newest.

Theory of operation. An address may name several hosts, one of which takes writes. libpq tries them one after the other, so one that
hangs costs every caller its timeout; we open each with a connection string of its own, and race them (`racing`). The host that
answered last is the favourite.

A *primary* is known by the cluster's system identifier and its timeline, which every promotion raises. Two hosts may both take
writes: the new primary, and the old one that was cut off and has come back. So the highest timeline that this process has seen of a
cluster is remembered, and a connection to an older one is not used any more: neither a new one, nor one that lies ready, nor one
that waits for an answer (`watching`). A process that has seen neither asks all hosts, and takes the newest of those that answer at
about the same time. Where the server does not tell its timeline (some that only speak PostgreSQL's protocol), nothing is known, and
nothing is concluded.

What is remembered is never locked: a dictionary and a set suffice, and a forked child inherits no lock that nobody holds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg
from msgspec import Struct
from psycopg import pq

from .. import deadlines
from .racing import NobodyCame, Race
from .waiting import READ, WRITE, Steps, wait

Connection: TypeAlias = psycopg.Connection[Any]

ALONE: Final = 10.0
"""Seconds in which a connection must be open, where the address names one host; unless it says `connect_timeout`."""
OF_SEVERAL: Final = 2.0
"""The same for each host of several, and for all of them together."""
TCP: Final = {"tcp_user_timeout": "10000", "keepalives_idle": "5", "keepalives_interval": "2", "keepalives_count": "3"}
"""A peer that has vanished is noticed after about 11 seconds, whoever waits for whom; unless the address says otherwise."""
_OK: Final = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
_WHO: Final = """
    select (select system_identifier from pg_catalog.pg_control_system())::text,
           case when not pg_catalog.pg_is_in_recovery()
                then pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()) end
"""


class Host(Struct, frozen=True):
    """One of them."""

    name: str
    conninfo: str
    """For libpq; may hold a password, so it is never shown."""
    seconds: float
    """In which a connection must be open and set up."""


class Primary(NamedTuple):
    """Who takes writes."""

    system: str
    timeline: int

    @property
    def outdated(self) -> bool:
        """Whether this process has seen a newer one of the same cluster."""
        return self.timeline < newest(self.system)


class Opened(NamedTuple):
    """A connection, and where it leads."""

    connection: Connection
    host: Host
    primary: Primary | None

    def close(self) -> None:
        """Hang up."""
        self.connection.close()

    @property
    def outdated(self) -> bool:
        """Whether it leads to a primary that has been replaced."""
        return self.primary is not None and self.primary.outdated

    def newness(self) -> int:
        """Its timeline, as far as it is known."""
        return 0 if self.primary is None else self.primary.timeline


_timelines: dict[str, set[int]] = {}
"""By system identifier: those that were seen."""
_favourites: dict[tuple[str, ...], str] = {}
"""By the names of all hosts: who answered last."""


def newest(system: str) -> int:
    """The highest timeline that was seen of a cluster."""
    return max(_timelines.get(system, ()), default=0)


def hosts_of(parsed: Mapping[str, Any]) -> tuple[Host, ...]:
    """Each host of a connection string, with a connection string of its own. (Where a service file names them, that is one host.)"""
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
    said = {name: value for name, value in {**parsed, **own}.items() if value != ""}
    seconds = float(said.setdefault("connect_timeout", int(seconds))) or ALONE
    name = said.get("host") or said.get("hostaddr") or "the default socket"
    port = own.get("port") or said.get("port")
    return Host(f"{name}:{port}" if port else str(name), psycopg.conninfo.make_conninfo("", **said), seconds)


def open_one(host: Host, settings: str = "", *, autocommit: bool = True) -> Opened:
    """A connection to this host, set up. Refuses a primary that is outdated."""
    connection: Connection = psycopg.connect(host.conninfo, autocommit=autocommit)
    try:
        if settings:
            _say(connection, host, settings)
        primary = _who(connection, host)
        if primary is not None:
            _remember(primary)
    except BaseException:
        connection.close()
        raise
    return Opened(connection, host, primary)


def _remember(primary: Primary) -> None:
    """It has been seen; refuses one that is outdated."""
    _timelines.setdefault(primary.system, set()).add(primary.timeline)
    if primary.outdated:
        raise psycopg.OperationalError(
            f"it is on timeline {primary.timeline}, and the primary is on {newest(primary.system)}, as this process has seen: "
            "it was replaced. If it is the right one all the same (an older copy was put back), restart this process"
        )


def open_any(hosts: Sequence[Host], settings: str = "", *, autocommit: bool = True) -> Opened:
    """A connection to the host that takes writes, in time or not at all: `psycopg.Error`."""
    names = tuple(host.name for host in hosts)
    favourite = _favourites.get(names)
    ordered = sorted(hosts, key=lambda host: host.name != favourite)
    race = Race([partial(open_one, host, settings, autocommit=autocommit) for host in ordered], Opened.close)
    seconds = deadlines.within(max(host.seconds for host in hosts))
    thorough = favourite is None and len(hosts) > 1
    try:
        opened = race.run(seconds, best=Opened.newness if thorough else None)
    except NobodyCame as nobody:
        raise _why(ordered, nobody.errors, seconds) from nobody
    _favourites[names] = opened.host.name
    return opened


def _why(hosts: Sequence[Host], errors: Mapping[int, Exception], seconds: float) -> Exception:
    for error in errors.values():
        if not isinstance(error, psycopg.Error):
            return error
    if len(hosts) == 1 and errors:
        return errors[0]
    said = [
        f"{host.name}: {first_line(errors[index]) if index in errors else f'no answer within {seconds:.1f} s'}"
        for index, host in enumerate(hosts)
    ]
    return psycopg.OperationalError("; ".join(said))


def first_line(error: Exception) -> str:
    """What an error says, as far as it fits into another's words."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _who(connection: Connection, host: Host) -> Primary | None:
    """Which primary this is; None if it does not tell, or is a standby."""
    try:
        (result,) = _say(connection, host, _WHO)
    except psycopg.OperationalError:
        if connection.pgconn.status != pq.ConnStatus.OK:
            raise
        return None
    system, walfile = result.get_value(0, 0), result.get_value(0, 1)
    return None if walfile is None or system is None else Primary(system.decode(), int(walfile[:8], 16))


def _say(connection: Connection, host: Host, text: str) -> list[pq.abc.PGresult]:
    """Statements without parameters, in time."""
    pgconn = connection.pgconn
    try:
        results = wait(_exchange(pgconn, text), pgconn.socket, host.seconds)
    except OSError as error:  # it has fallen silent
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
