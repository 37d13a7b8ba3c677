"""What a run left on disk: both variants must have written the same rows into the same tables, with at least one sync per batch.

Reads only the closed files, so that what is measured does not report on itself.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec import Struct

TABLES: Final = ("pools", "holds", "legs", "journal", "operations")
PREFIX: Final = "holdkit_"  # Holdkit's tables are beside an application's own


class BenchFailed(Exception):
    """A run did not do what it claims: do not trust its figures."""


class Written(Struct, frozen=True):
    """The rows per table, and the transactions that wrote them."""

    rows: dict[str, int]
    batches: int
    """All that is decided in one transaction has one slot, and no two transactions share theirs, as a sync lies between."""


def written(path: Path) -> Written:
    """Count what is in a closed database."""
    with closing(sqlite3.connect(path)) as db:
        names = table_names(db)
        rows = {table: int(db.execute(f"select count(*) from {names[table]}").fetchone()[0]) for table in TABLES}
        slots = db.execute(f"select count(distinct json_extract(body, '$.slot')) from {names['journal']}").fetchone()
    return Written(rows, int(slots[0]))


def table_names(db: sqlite3.Connection) -> dict[str, str]:
    """The name of each table in this database."""
    present = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
    return {table: PREFIX + table if PREFIX + table in present else table for table in TABLES}


def expect_rows(variant: str, found: Written, holds: int, *, operations: int) -> None:
    """Every requested hold exists once, complete."""
    expected = {"pools": 1, "holds": holds, "legs": holds, "journal": holds + 1, "operations": operations}
    if found.rows != expected:
        raise BenchFailed(f"{variant}: expected the rows {expected}, found {found.rows}")


def expect_syncs(variant: str, batches: int, syncs: int | None) -> None:
    """A batch that was answered before it was synced invalidates every figure."""
    if syncs is not None and syncs < batches:
        raise BenchFailed(f"{variant}: {batches} batches, but only {syncs} syncs")


def expect_identical(one: Path, other: Path) -> None:
    """Both files hold the very same rows."""
    with closing(sqlite3.connect(one)) as first, closing(sqlite3.connect(other)) as second:
        for table, name in table_names(first).items():
            query = f"select * from {name} order by 1, 2, 3, 4"
            if first.execute(query).fetchall() != second.execute(query).fetchall():
                raise BenchFailed(f"{one.name} and {other.name} hold different {table}")


def expect_same_shape(by_hand: Path, ours: Path) -> None:
    """Both variants have the same columns and indexes, so neither writes less per hold."""
    shapes = [shape(by_hand), shape(ours)]
    if shapes[0] != shapes[1]:
        different = sorted(set(shapes[0]) ^ set(shapes[1]))
        raise BenchFailed("the tables differ, bench/by_hand.py has to follow: " + "; ".join(different))


def shape(path: Path) -> list[str]:
    """One line per column and per index."""
    lines: list[str] = []
    with closing(sqlite3.connect(path)) as db:
        for table, name in table_names(db).items():
            for _, column, kind, required, _, key in db.execute(f"pragma table_info({name})"):
                lines.append(f"{table}.{column} {kind.lower()} required={required} key={key}")
            for _, index, unique, _, partial in db.execute(f"pragma index_list({name})").fetchall():
                columns = [column for _, _, column in db.execute(f"pragma index_info({index})")]
                lines.append(f"{table} index {columns} unique={unique} partial={partial}")
    return sorted(lines)
