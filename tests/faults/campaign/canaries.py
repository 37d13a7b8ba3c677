"""Canaries: stores that break one promise each, so that a fault must lose something. A part of the campaign whose canary
loses nothing proves nothing, and fails.

Installed in a client process only, by name. The others of PostgreSQL are settings of its server (`stores.py`, `pair.py`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

from holdkit.core.reading import Query
from holdkit.engines.postgres import database, script
from holdkit.engines.postgres.encoding import Sql
from holdkit.engines.postgres.journal_reading import Reader
from holdkit.engines.postgres.statements import load
from holdkit.kernel._sync.executor import Executor


def sqlite_unsynced() -> None:
    """`synchronous = off`: SQLite no longer syncs its file."""
    plain = sqlite3.connect

    class Unsynced(sqlite3.Connection):
        def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
            return super().execute(sql.replace("synchronous = full", "synchronous = off"), parameters)

    def connect(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = plain(*arguments, **{**options, "factory": Unsynced})
        return connection

    sqlite3.connect = connect  # type: ignore[assignment]


def postgres_unproved() -> None:
    """What a call has read and not written waits for no standby: a batch that wrote nothing rolls back, a look is a look."""
    vars(script)["proof_of"] = lambda outcomes, batch_rows: ()
    vars(script)["prune"] = lambda options, slot: []  # it would be committed
    Reader.proved = lambda self, script, query: script  # type: ignore[method-assign]


def unproved_pages() -> None:
    """What a follower is about to show is read like anything else."""
    plain = Executor.read

    def read(self: Executor, query: Query[Any], tx: Any = None, *, durable: bool = False) -> Any:
        return plain(self, query, tx, durable=durable and not query.shown)

    Executor.read = read  # type: ignore[method-assign]


def altered(name: str, text: str, instead: str) -> Callable[[], None]:
    """A statement of a guarded batch says something else."""

    def install() -> None:
        sql = load()[name]
        assert text in sql.text, f"{name} does not say: {text}"
        changed = MappingProxyType({**load(), name: Sql(name, sql.text.replace(text, instead), sql.types)})
        vars(database)["load"] = lambda _="holdkit": changed

    return install


GUARDED: Final[dict[str, Callable[[], None]]] = {
    "due legs are not looked for": altered(
        "guard_places", "limit 1) is not null then 'due' end", "limit 1) is not null then null end"
    ),
    "due legs are not returned": altered(
        "guard_moves", "and g.deadline <= p.now\n", "and g.deadline <= p.now and false\n"
    ),
    "a pool is not locked": altered("guard_lock", "for no key update of p", "limit 1"),
    "pools are not locked": altered("guard_lock_pools", "for no key update of p", ""),
}
CANARIES: Final[dict[str, Callable[[], None]]] = {
    "sqlite": sqlite_unsynced,
    "unproved": postgres_unproved,
    "unproved pages": unproved_pages,
    "slots go back": altered("guard_moves", "greatest(p.slot, c.slot) as now", "c.slot as now"),
    **GUARDED,
}


def install(name: str) -> None:
    """Install a canary, by name, in this process."""
    if name:
        CANARIES[name]()
