"""Canaries: kernels that break one promise each. Undisturbed they are as good as the real one; a harness that lets one of
them pass under faults proves nothing.

Installed in a child process only, by name.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from math import inf
from pathlib import Path
from typing import Any

from msgspec import structs

from holdkit.core.commands import Group
from holdkit.engines.port import Applied
from holdkit.engines.sqlite import engine, writer, writing
from holdkit.engines.sqlite.driver import Script, Statement, load
from holdkit.engines.sqlite.script import RunAgain, ScriptResult
from holdkit.engines.sqlite.writing import Written
from holdkit.errors import EngineError, OutcomeUnknown
from tests.faults.fault_points import POINTS


def acknowledge_before_commit() -> None:
    """The answer is given first; COMMIT follows at the next statement."""
    POINTS.late_commits = True


def _in_a_transaction_of_its_own(name: str) -> None:
    """The rows of this statement are written by a second transaction, after the first has been committed."""
    postponed: list[Statement] = []
    whole = writing.BatchRows.statements
    transact = writer.Writer._transact

    def part(self: writing.BatchRows) -> list[Statement]:
        statements = whole(self)
        postponed.extend(one for one in statements if one[0] == name)
        return [one for one in statements if one[0] != name]

    def transact_in_two(self: writer.Writer, *arguments: Any) -> Written:
        postponed.clear()
        ran: Written = transact(self, *arguments)
        if postponed:
            second = sqlite3.connect(self.path, isolation_level=None)
            second.execute("begin immediate")
            for statement in postponed:
                second.executemany(load()[name], statement[1])
            second.execute("commit")
            second.close()
        return ran

    writing.BatchRows.statements = part  # type: ignore[method-assign]
    writer.Writer._transact = transact_in_two  # type: ignore[method-assign,assignment]


def operation_row_apart() -> None:
    """Effect first, the operation's record after it."""
    _in_a_transaction_of_its_own("put_operations")


def journal_apart() -> None:
    """State first, its journal entry after it."""
    _in_a_transaction_of_its_own("insert_journal")


def unknown_as_none() -> None:
    """What may have happened is said not to have happened."""
    apply = engine.SqliteEngine.apply

    def sure(
        self: engine.SqliteEngine, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False
    ) -> Applied:
        try:
            return apply(self, groups, until=until, wait_for_locks=wait_for_locks)
        except OutcomeUnknown as unknown:
            raise EngineError("surely nothing happened") from unknown

    engine.SqliteEngine.apply = sure  # type: ignore[method-assign]


def applied_twice() -> None:
    """A commit that failed is simply run again, without asking whether it had happened."""
    apply_script: Callable[..., Script[ScriptResult | RunAgain]] = vars(engine)["apply_script"]
    again: list[bool] = []

    def forgetful(groups: Sequence[Group], *arguments: Any, **options: Any) -> Script[ScriptResult | RunAgain]:
        return apply_script([_nameless(group) for group in groups] if again else groups, *arguments, **options)

    def resolve(
        self: writer.Writer, ran: Written, make: Callable[[bool], Script[Written]], error: sqlite3.Error
    ) -> Written:
        self._poison()
        again.append(True)
        try:
            return self._transact(self._ready(), make)
        finally:
            again.clear()

    vars(engine)["apply_script"] = forgetful
    writer.Writer._resolve = resolve  # type: ignore[method-assign,assignment]


def _nameless(group: Group) -> Group:
    return Group(tuple(structs.replace(one, op=None, fingerprint="") for one in group.commands), group.atomic)


def retried_sync() -> None:
    """A sync that failed is tried once more, says yes, and is believed: the pages had been marked clean all the same."""

    def resolve(self: writer.Writer, ran: Written, *_: Any) -> Written:
        with Path(f"{self.path}-wal").open("rb") as wal:
            os.fdatasync(wal.fileno())
        return ran

    writer.Writer._resolve = resolve  # type: ignore[method-assign,assignment]


def acknowledge_before_sync() -> None:
    """synchronous=off: no kill can tell, only the order of the system calls (and a power cut)."""
    POINTS.unsynced = True


CANARIES: dict[str, Callable[[], Any]] = {
    canary.__name__: canary
    for canary in (
        acknowledge_before_commit,
        operation_row_apart,
        journal_apart,
        unknown_as_none,
        applied_twice,
        retried_sync,
        acknowledge_before_sync,
    )
}


def install(name: str) -> None:
    """Break this process in that way."""
    if name:
        CANARIES[name]()
