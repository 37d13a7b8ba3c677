"""Opening a connection of our own: its settings, the conditions that a server must meet, and what a done answer survives there.

A server with unsafe settings is refused, unless the URL allows each by name. The durability settings are read on every new connection, and
again once they are older than `FRESH`. Only facts that the server itself knows can be reported: its settings, as our connections have them,
and the standbys that receive its log. A standby that is fed from an archive, or by the storage below, is not seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import psycopg

from ...core.bounds import Limits
from ...core.model import SECOND
from ...errors import EngineError, plain
from ..deadlines import passed, too_late
from ..durability import Durability, Standby
from .address import UNSAFE, Address
from .connections import PipelineConnection
from .database import NO_WAIT_MS, Database, lock_timeout_ms
from .driver import OnStatement
from .failures import StatementFailed
from .hosts import HostConnection, first_line, open_any
from .statements import load
from .waiting import PrimaryWatch

OLDEST: Final = 150_000
"""The oldest server version (`server_version_num`) that is tested."""
NEEDED: Final = f"Holdkit needs PostgreSQL {OLDEST // 10_000} or later"
FRESH: Final = 5.0
"""Seconds for which the durability settings count: the first call after that notices a reload of the server's settings."""
DURABILITY_SETTINGS: Final = (*UNSAFE, "synchronous_standby_names")

# Our statements are planned once, when tables may be small, and must be right when they are large: every key has its index.
_PLANNER: Final = {
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "search_path": "pg_catalog",
    "default_transaction_isolation": "read committed",
}
_DISTRIBUTED: Final = {"plan_cache_mode": "force_custom_plan"}
"""Citus routes a statement by its lane, so it must know the lane when it plans."""


def connect(
    database: Database, on_statement: OnStatement | None = None, watch: PrimaryWatch | None = None
) -> PipelineConnection:
    """Open a connection of our own and set it up."""
    address, limits = database.address, database.asked
    settings = "" if address.pooled else settings_text(limits, distributed=database.distributed)
    opened = open_connection(address, settings)
    connection = PipelineConnection(
        opened.connection.pgconn,
        prepare=not address.pooled,
        timeout=2 * limits.lock_timeout / SECOND + 10,
        on_statement=on_statement,
        statements=database.statements(),
    )
    connection.owner = opened.connection
    connection.primary = opened.primary
    connection.watch = watch if watch is not None and watch.several else None
    return connection


def open_connection(address: Address, settings: str = "", *, autocommit: bool = True) -> HostConnection:
    """Open a psycopg connection to the host that takes writes."""
    try:
        return open_any(address.hosts, settings, autocommit=autocommit)
    except psycopg.Error as error:
        if passed():
            raise too_late() from error
        raise EngineError(f"cannot connect to {address.shown}: {first_line(error)}") from error


def settings_text(limits: Limits, *, distributed: bool = False) -> str:
    """Return the statements that set up a session of ours."""
    wait = int(lock_timeout_ms(limits))
    timeouts = {"lock_timeout": min(wait, NO_WAIT_MS), "statement_timeout": 2 * wait + 5_000,
                "idle_in_transaction_session_timeout": 2 * wait + 10_000}  # fmt: skip
    settings: Mapping[str, Any] = {**_PLANNER, **(_DISTRIBUTED if distributed else {}), **timeouts}
    return "; ".join(f"set {name} = '{value}'" for name, value in settings.items())


# What a server must be


def check_server(connection: PipelineConnection, address: Address) -> None:
    """Raise if a server cannot keep our promises."""
    version, encoding, *safety, recovering, _ = connection.fetch("server_settings")[0]
    check_version(version, address)
    if encoding != "UTF8":
        raise EngineError(f"{address.shown} has encoding {encoding}: create the database with encoding UTF8")
    if recovering:
        raise EngineError(f"{address.shown} is a standby: decisions come from the primary only")
    check_safety(address, dict(zip(UNSAFE, safety, strict=True)))


def check_same_database(connection: PipelineConnection, address: Address, notifying: Address) -> None:
    """Raise if `notify_url` leads to another database than the URL, or to a pooler, which lets no notification pass."""
    try:
        other = open_connection(notifying).connection
    except EngineError as error:
        raise EngineError(f"notify_url: {plain(error)}") from error
    with other:
        ((*there, session),) = other.execute(load()["server_identity"].text.encode()).fetchall()
        is_direct = session == other.pgconn.backend_pid  # a pooler invents a process id for each of its clients
    ((*here, _),) = connection.fetch("server_identity")
    if not is_direct:
        raise EngineError(f"notify_url leads to {notifying.shown} through a pooler: it must name the server itself")
    if here != there:
        raise EngineError(f"notify_url leads to another database ({notifying.shown}) than the URL ({address.shown})")


def check_safety(address: Address, settings: Mapping[str, str]) -> None:
    """Raise for settings under which a done answer may be lost, unless the URL allows them by name."""
    found = [name for name in UNSAFE if settings[name] == "off"]
    refused = [name for name in found if name not in address.allow_unsafe]
    if refused:
        raise EngineError(
            f"{address.shown} runs with {refused[0]} = off, so changes that were answered as done could be lost: switch it on, or allow it by "
            f"name with ?allow_unsafe={','.join(found)}"
        )


def check_version(number: int, address: Address) -> None:
    """Raise if a server is older than any that is tested."""
    if number < OLDEST:
        raise EngineError(f"{address.shown} is PostgreSQL {shown_version(number)}: {NEEDED}")


def shown_version(number: int) -> str:
    """Return `server_version_num` as people write it."""
    return f"{number // 10_000}.{number % 10_000}"


class ServerDisk:
    """The disk of the server's data, if there is one server, on this machine, that shows its directory to our role."""

    def __init__(self, address: Address, read: Callable[[Callable[[PipelineConnection], Any]], Any]) -> None:
        self._address, self._read = address, read

    def data_path(self) -> Path | None:
        """Return the server's data directory, or None if it is not known to be on this machine."""
        if len(self._address.hosts) > 1:
            return None
        rows = self._read(lambda connection: connection.fetch("local_data_directory"))
        path = next((Path(folder) for (folder,) in rows), None)
        return path if path is not None and path.is_dir() else None

    def data_size(self) -> int:
        """Return the bytes of the whole database."""
        ((size,),) = self._read(lambda connection: connection.fetch("database_size"))
        return int(size)


# What a done answer survives

_NOT_ALLOWED: Final = "42501"
"""Insufficient privilege: the server shows its standbys to some roles only."""
_STATES: Final[Mapping[str | None, Literal["synchronous", "asynchronous"]]] = {
    "sync": "synchronous",
    "quorum": "synchronous",
    "potential": "asynchronous",
    "async": "asynchronous",
}
_COPY: Final = {
    "remote_write": "in the memory of a synchronous standby",
    "on": "on the disk of a synchronous standby",
    "remote_apply": "on the disk of a synchronous standby and applied there",
}
_HIDDEN: Final = "this database role may not see which standbys there are, nor whether commits wait for them"
_GRANT: Final = "to let this database role see the standbys, grant it pg_read_all_stats or pg_monitor"


class DurabilityCheck:
    """What a done answer survives, as last read. Safe to share between threads."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.known: Durability | None = None
        """None until a server was asked."""
        self.stale_at = float("-inf")
        """The moment of `time.monotonic` from which the next call reads it again."""

    @property
    def commit_waits(self) -> bool:
        """Whether COMMIT waited for standbys when the settings were last read."""
        return self.known is not None and commit_waits(self.known.settings)

    def read(self, connection: PipelineConnection) -> Durability:
        """Read the settings and the standbys. Raise `EngineError` for an unsafe setting that the URL does not allow by name."""
        found = read_durability(connection)
        check_safety(self.address, found.settings)
        self.known, self.stale_at = found, time.monotonic() + FRESH
        return found


def commit_waits(settings: Mapping[str, str]) -> bool:
    """Return whether COMMIT waits for standbys, by these settings."""
    return bool(settings["synchronous_standby_names"]) and settings["synchronous_commit"] not in ("off", "local")


def read_durability(connection: PipelineConnection) -> Durability:
    """Return what a done answer survives, by the settings in force on this connection."""
    try:
        (values,), rows = connection.execute((("read_durability", ()), ("read_standbys", ())))
        standbys = [Standby(name, "away" if away else _STATES.get(state, "unknown")) for name, state, away in rows]
    except StatementFailed as failed:
        if failed.sqlstate != _NOT_ALLOWED:
            raise
        (values,), standbys = connection.fetch("read_durability"), [Standby("", "unknown")]
    return assess(dict(zip(DURABILITY_SETTINGS, values, strict=True)), standbys)


def assess(settings: Mapping[str, str], standbys: Sequence[Standby]) -> Durability:
    """Return what a done answer survives under these settings, while these standbys receive the log."""
    off = [name for name in UNSAFE if settings[name] == "off"]
    if off:
        says, advice = (
            f"{', '.join(off)} = off: a crash of the server may lose changes that were answered as done",
            f"switch on {', '.join(off)}",
        )
        return Durability("unsafe", says, advice, tuple(standbys), settings)
    names = settings["synchronous_standby_names"]
    if commit_waits(settings):
        return _synchronous(settings, standbys)
    if not names and not standbys:
        return Durability(
            "local",
            "changes are on the server's disk before their calls return; no standby is connected",
            "",
            (),
            settings,
        )
    there = "may be" if all(standby.state == "unknown" for standby in standbys) else "is"
    others = f" ({_named(standbys)})" if standbys else ""
    says = f"commits wait for no standby, and there {there} one{others}: a failover may lose the last changes before it"
    advice = (
        "set synchronous_commit = on" if names else "name it in synchronous_standby_names, unless that is acceptable"
    )
    return _with_hidden(Durability("asynchronous_standby", says, advice, tuple(standbys), settings))


def _synchronous(settings: Mapping[str, str], standbys: Sequence[Standby]) -> Durability:
    """Return the durability where commits wait for the standbys in `synchronous_standby_names`; there may be others."""
    commit, names = settings["synchronous_commit"], settings["synchronous_standby_names"]
    says = f"before a call returns, its changes are on the server's disk and {_COPY.get(commit, _COPY['on'])} ({names})"
    others = [standby for standby in standbys if standby.state in ("asynchronous", "away")]
    if others:
        says += f"; a failover to another standby ({_named(others)}) may lose the last changes before it"
    advice = ""
    if not any(standby.state in ("synchronous", "unknown") for standby in standbys):
        says += "; none is connected, so commits wait until one is"
        advice = "start the standby, or take its name out of synchronous_standby_names"
    return _with_hidden(Durability("synchronous", says, advice, tuple(standbys), settings))


def _with_hidden(durability: Durability) -> Durability:
    """Add a sentence about the standbys that this database role may not see."""
    if not any(standby.state == "unknown" for standby in durability.standbys):
        return durability
    advice = f"{durability.advice}; {_GRANT}" if durability.advice else _GRANT
    return Durability(
        durability.level, f"{durability.says}; {_HIDDEN}", advice, durability.standbys, durability.settings
    )


def _named(standbys: Sequence[Standby]) -> str:
    return ", ".join(f"{standby.name or 'unnamed'}, {standby.state}" for standby in standbys)
