"""What the tests of the SQLite engine share: commands in one line, and a way to look at the file from outside."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from holdkit.core.commands import (
    AnyCommand,
    Group,
    PlaceHold,
)
from holdkit.core.model import Leg, Pool, Slot, StoredHold
from holdkit.core.outcomes import Receipt, Refusal, Reply
from holdkit.core.reading import FindHold, FindPool
from holdkit.engines.sqlite import SqliteEngine
from holdkit.kernel.results import replies_of

_numbers = count(1)


def hold_id(number: int | None = None) -> str:
    return f"{next(_numbers) if number is None else number:032x}"


def groups(*commands: AnyCommand) -> list[Group]:
    """One group per command, without fingerprints: a retry may bring another payload."""
    return [Group((command,)) for command in commands]


def one(engine: SqliteEngine, command: AnyCommand) -> Reply:
    return replies_of(engine.apply(groups(command)), None)[0][0]


def done(engine: SqliteEngine, command: AnyCommand) -> Receipt:
    outcome = one(engine, command)
    assert isinstance(outcome, Receipt), outcome
    return outcome


def refused(engine: SqliteEngine, command: AnyCommand) -> Refusal:
    outcome = one(engine, command)
    assert isinstance(outcome, Refusal), outcome
    return outcome


def place(*legs: str | tuple[str, int], ttl: Slot | None = 60, id: str | None = None, **more: Any) -> PlaceHold:
    pairs = [(leg, 1) if isinstance(leg, str) else leg for leg in legs or ("gpu",)]
    return PlaceHold(legs=tuple(Leg(*pair) for pair in pairs), ttl_slots=ttl, id=id or hold_id(), token="me", **more)


def pool(engine: SqliteEngine, name: str = "gpu", tenant: str = "") -> Pool:
    found = engine.read(FindPool((tenant, name)))
    assert found is not None
    return found


def hold(engine: SqliteEngine, id: str, tenant: str = "") -> StoredHold:
    found = engine.read(FindHold((tenant, id)))
    assert found is not None
    return found


def consistent(engine: SqliteEngine) -> None:
    assert [str(difference) for difference in engine.verify()] == []


@contextmanager
def outside(path: Path) -> Iterator[sqlite3.Connection]:
    """Another connection, as an application or a curious person would open it."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        connection.execute("pragma wal_autocheckpoint = 0")
        yield connection
    finally:
        connection.close()


def rows(path: Path, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with outside(path) as connection:
        return connection.execute(sql, parameters).fetchall()
