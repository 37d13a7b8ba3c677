"""A copy of a file as a crash would have left it, read without the engine that wrote it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.faults import script

IGNORED = frozenset({"crc"})
"""Columns that follow from the others; `verify` checks them."""


def copy_as_crashed(path: Path, to: Path) -> Path:
    """The database, its WAL or rollback journal, without the shared memory: what a process that starts now would find."""
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    for suffix in ("", "-wal", "-journal"):
        source = Path(f"{path}{suffix}")
        if source.exists():
            shutil.copyfile(source, to / source.name)
    return to / path.name


def dump(path: Path) -> str:
    """Every row of ours, in a form that can be compared between runs."""
    lines: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        found = connection.execute(
            "select name from sqlite_schema where type = 'table' and name like 'holdkit~_%' escape '~'"
        )
        for (table,) in sorted(found.fetchall()):
            cursor = connection.execute(f"select * from {table}")
            wanted = [index for index, column in enumerate(cursor.description) if column[0] not in IGNORED]
            rows = [[row[index] for index in wanted] for row in cursor]
            if table == "holdkit_settings":
                rows = [_setting(*row) for row in rows if row[0] != "scrubbed"]
            lines += [script.canonical(f"{table} {row}") for row in rows]
            lines.append(f"{table} is there")
    return "\n".join(sorted(lines))


def _setting(name: str, value: str) -> list[str]:
    """The generation is a random word, another one in each run; that there is one counts."""
    return [name, "a word" if name == "generation" else value]


def difference(found: str, wanted: str) -> str:
    """The rows that differ, shortened."""
    one, other = set(found.splitlines()), set(wanted.splitlines())
    rows = [f"+ {row[:300]}" for row in sorted(one - other)] + [f"- {row[:300]}" for row in sorted(other - one)]
    return "\n    ".join(rows[:8])
