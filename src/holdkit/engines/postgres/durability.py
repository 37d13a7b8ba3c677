"""What a done answer of a PostgreSQL server survives: read on every new connection, and again when that is a while ago.

Only what the server itself knows is told: its settings, as our own connections have them, and who receives its log. A standby
that is fed from an archive, or by the storage below, is not seen.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from ..durability import Durability, Standby
from .driver import Driver, StatementFailed
from .opening import UNSAFE, Address, check_safety

FRESH: Final = 5.0
"""Seconds for which what was read counts: a reload of the server's settings is noticed by the first call after that."""
SETTINGS: Final = (*UNSAFE, "synchronous_standby_names")
NOT_ALLOWED: Final = "42501"
"""A server that shows who receives its log to chosen roles only."""
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
_HIDDEN: Final = "what receives the log, and whether commits wait for it, cannot be told by this role"
_GRANT: Final = "to see what receives the log, grant pg_read_all_stats (or pg_monitor) to this role"


class DurabilityCheck:
    """What is in force, as a server last told it. Safe to share between threads."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._read = float("-inf")
        self.known: Durability | None = None
        """None until a server was asked."""

    @property
    def due(self) -> bool:
        """Whether it was read so long ago that the next call should read it again."""
        return time.monotonic() - self._read > FRESH

    def look(self, driver: Driver) -> Durability:
        """Read it. Raises `EngineError` where a setting is unsafe that the URL does not allow by name."""
        found = read_durability(driver)
        check_safety(self._address, found.settings)
        self.known, self._read = found, time.monotonic()
        return found


def read_durability(driver: Driver) -> Durability:
    """What is in force on this connection."""
    try:
        (values,), rows = driver.say((("read_durability", ()), ("read_standbys", ())))
        standbys = [Standby(name, "away" if away else _STATES.get(state, "unknown")) for name, state, away in rows]
    except StatementFailed as failed:
        if failed.sqlstate != NOT_ALLOWED:
            raise
        (values,), standbys = driver.ask("read_durability"), [Standby("", "unknown")]
    return weigh(dict(zip(SETTINGS, values, strict=True)), standbys)


def weigh(settings: Mapping[str, str], standbys: Sequence[Standby]) -> Durability:
    """What these settings mean for a done answer, while these receive the log."""
    off = [name for name in UNSAFE if settings[name] == "off"]
    if off:
        says, advice = (
            f"{', '.join(off)} = off: a crash of the server may lose a done answer",
            f"switch on {', '.join(off)}",
        )
        return Durability("unsafe", says, advice, tuple(standbys), settings)
    commit, names = settings["synchronous_commit"], settings["synchronous_standby_names"]
    if names and commit != "local":
        return _synchronous(settings, standbys)
    if not names and not standbys:
        return Durability("local", "a done answer is on the server's disk; no standby is connected", "", (), settings)
    there = "may be" if all(standby.state == "unknown" for standby in standbys) else "is"
    others = f" ({_named(standbys)})" if standbys else ""
    says = f"commits wait for no standby, and there {there} one{others}: a failover may lose the last moments"
    advice = (
        "set synchronous_commit = on" if names else "name it in synchronous_standby_names, unless that is acceptable"
    )
    return _complete(Durability("asynchronous_standby", says, advice, tuple(standbys), settings))


def _synchronous(settings: Mapping[str, str], standbys: Sequence[Standby]) -> Durability:
    """Commits wait for those that are named; others may be there, too."""
    commit, names = settings["synchronous_commit"], settings["synchronous_standby_names"]
    says = f"a done answer is on the server's disk and {_COPY.get(commit, _COPY['on'])}, of {names}"
    behind = [standby for standby in standbys if standby.state in ("asynchronous", "away")]
    if behind:
        says += f"; a failover to another ({_named(behind)}) may lose the last moments"
    advice = ""
    if not any(standby.state in ("synchronous", "unknown") for standby in standbys):
        says += "; none is connected, so that commits wait"
        advice = "start the standby, or take its name out of synchronous_standby_names"
    return _complete(Durability("synchronous", says, advice, tuple(standbys), settings))


def _complete(told: Durability) -> Durability:
    """With what this role was not shown."""
    if not any(standby.state == "unknown" for standby in told.standbys):
        return told
    advice = f"{told.advice}; {_GRANT}" if told.advice else _GRANT
    return Durability(told.level, f"{told.says}; {_HIDDEN}", advice, told.standbys, told.settings)


def _named(standbys: Sequence[Standby]) -> str:
    return ", ".join(f"{standby.name or 'unnamed'}, {standby.state}" for standby in standbys)
