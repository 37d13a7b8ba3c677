"""`engine.apply` compared with `executemany` of exactly the rows that it wrote.

The engine writes a database first; its rows are read back, batch by batch, and written again into an equal but empty file
by minimal code. The difference between the two is the cost of loading, deciding and encoding.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any, TypeAlias

from msgspec import Struct

from holdkit.core.codec import decode_entry
from holdkit.core.commands import CreatePool, Group
from holdkit.core.outcomes import Done
from holdkit.engines.port import Engine

from .callers import POOL, TOTAL
from .core_speed import START, out_of_sight, place_groups
from .disk import FlushCounter
from .rows import BenchFailed, expect_identical, expect_syncs, table_names
from .stores import open_engine

Rows: TypeAlias = list[tuple[Any, ...]]


class RawBatch(Struct, frozen=True):
    """The rows of one transaction."""

    pool: tuple[Any, ...]
    holds: Rows
    legs: Rows
    journal: Rows


class RawRound(Struct, frozen=True):
    """Holds per second of both, in one round."""

    batch: int
    raw: float
    apply: float


def raw_rounds(
    batch: int, holds: int, rounds: int, directory: Path, flushes: FlushCounter | None, step: Callable[[], None]
) -> list[RawRound]:
    """The engine writes once to produce the rows; then both write them alternately, each into a fresh file."""
    work = [place_groups(batch, turn, START) for turn in range(holds // batch)]
    source = directory / "source.db"
    run_apply(source, work)
    rows = read_batches(source, batch)
    if [len(part.holds) for part in rows] != [batch] * len(work):
        raise BenchFailed("engine.apply: its database does not hold the batches it was given")
    found: list[RawRound] = []
    for turn in range(rounds):
        place = directory / f"round-{turn}"
        place.mkdir()
        ours, raw = place / "apply.db", place / "raw.db"
        copy_schema(source, raw)
        seconds = {}
        variants = (("apply", lambda path=ours: run_apply(path, work)), ("raw", lambda path=raw: run_raw(path, rows)))
        for name, variant in variants if turn % 2 == 0 else reversed(variants):
            seconds[name] = flushed(flushes, name, len(work), variant)
        expect_identical(ours, raw)
        found.append(RawRound(batch, raw=holds / seconds["raw"], apply=holds / seconds["apply"]))
        shutil.rmtree(place)
        step()
    return found


def flushed(flushes: FlushCounter | None, variant: str, batches: int, work: Callable[[], float]) -> float:
    """Run it, and check that it synced at least once per batch."""
    before = 0 if flushes is None else flushes()
    seconds = work()
    expect_syncs(variant, batches, None if flushes is None else flushes() - before)
    return seconds


def run_apply(path: Path, work: list[list[Group]]) -> float:
    """Seconds for all batches. The clock is a counter, so that every run writes the very same rows."""
    engine = open_engine(path, clock=count(START).__next__)
    try:
        engine.apply([Group((CreatePool(id=POOL, total=TOTAL),))])
        return timed_apply(engine, work)
    finally:
        engine.close()


def timed_apply(engine: Engine, work: list[list[Group]]) -> float:
    """Seconds to apply these batches; every command must be granted. Only `apply` itself is on the clock."""
    seconds = 0.0
    with out_of_sight():
        for groups in work:
            begin = perf_counter()
            applied = engine.apply(groups)
            seconds += perf_counter() - begin
            if not all(isinstance(outcome, Done) for outcomes in applied.outcomes for outcome in outcomes):
                raise BenchFailed("engine.apply: a command of the bench was refused")
    return seconds


def read_batches(path: Path, batch: int) -> list[RawBatch]:
    """What the engine wrote, split into its batches again."""
    with closing(sqlite3.connect(path)) as db:
        names = table_names(db)
        columns = [row[1] for row in db.execute(f"pragma table_info({names['pools']})")]
        journal = db.execute(f"select * from {names['journal']} order by seq").fetchall()[1:]  # without pool.created
        holds = {row[1]: row for row in db.execute(f"select * from {names['holds']}")}
        legs = {row[3]: row for row in db.execute(f"select * from {names['legs']}")}
    batches: list[RawBatch] = []
    for start in range(0, len(journal), batch):
        part = journal[start : start + batch]
        ids = [row[2] for row in part]
        pool = decode_entry(part[-1][3]).effects[-1].pool
        after = tuple(stored(name, getattr(pool, name)) for name in columns)
        batches.append(RawBatch(after, [holds[id_] for id_ in ids], [legs[id_] for id_ in ids], part))
    return batches


def stored(column: str, value: Any) -> Any:
    """A pool's attribute as the table has it."""
    if column == "line":
        return None if value == "strict" else value
    return int(value) if isinstance(value, bool) else value


def copy_schema(source: Path, target: Path) -> None:
    """The same tables and indexes, empty but for the pool's first entry."""
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target, isolation_level=None)) as new:
        new.execute("pragma journal_mode = wal")
        for (sql,) in old.execute("select sql from sqlite_master where sql is not null order by type desc"):
            new.execute(sql)
        name = table_names(old)["journal"]
        new.execute(
            f"insert into {name} values (?, ?, ?, ?, ?)", old.execute(f"select * from {name} limit 1").fetchone()
        )


def run_raw(path: Path, batches: list[RawBatch]) -> float:
    """Seconds to write all batches, one transaction each."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma synchronous = full")
        names = table_names(db)
        first = batches[0]
        pool, hold, leg, journal = (
            f"{verb} into {names[table]} values ({', '.join('?' * len(row))})"
            for verb, table, row in (("replace", "pools", first.pool), ("insert", "holds", first.holds[0]),
                                     ("insert", "legs", first.legs[0]), ("insert", "journal", first.journal[0]))
        )  # fmt: skip
        seconds = 0.0
        with out_of_sight():
            for part in batches:
                begin = perf_counter()
                db.execute("begin immediate")
                db.execute(pool, part.pool)
                db.executemany(hold, part.holds)
                db.executemany(leg, part.legs)
                db.executemany(journal, part.journal)
                db.execute("commit")
                seconds += perf_counter() - begin
        return seconds
