"""The cost of a hold in a database with 1,000,000 ended holds that are not yet retired, compared with 10,000.

The ended holds are copies of the rows of one real hold that was placed and released, under new ids and numbers. Both
files are then measured alternately: a single caller, and `engine.apply` of 256.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter, time_ns
from typing import Any

from msgspec import Struct

import holdkit
from holdkit.core.codec import decode_entry, encode_entry, minted_id
from holdkit.core.entries import Entry
from holdkit.core.model import SECOND
from holdkit.engines.sqlite.rows import entry_checksum

from .callers import POOL, TOTAL, TTL
from .core_speed import place_groups
from .raw import timed_apply
from .rows import BenchFailed, table_names
from .stores import open_engine, url

BATCH = 256
CHUNK = 10_000


class Age(Struct, frozen=True):
    """Seconds per hold with a given number of past holds, round by round."""

    past: int
    alone: list[float]
    in_batch: list[float]


def make_past(path: Path, past: int, step: Callable[[int], None]) -> None:
    """A database whose pool has `past` released holds."""
    with holdkit.connect(url(path)) as hk:
        hk.create_pool(POOL, TOTAL)
        hk.release(hk.hold(POOL, 1, ttl=TTL))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma synchronous = off")
        db.execute("pragma cache_size = -200000")
        names = table_names(db)
        hold = db.execute(f"select * from {names['holds']}").fetchone()
        held, released = (decode_entry(body) for (body,) in
                          db.execute(f"select body from {names['journal']} where seq > 1 order by seq"))  # fmt: skip
        templates = encode_entry(held), encode_entry(released)
        for start in range(1, past, CHUNK):
            many = range(start, min(start + CHUNK, past))
            db.execute("begin immediate")
            db.executemany(f"insert into {names['holds']} values ({', '.join('?' * len(hold))})", copies(hold, many))
            db.executemany(f"insert into {names['journal']} values (?, ?, ?, ?, ?)",
                           entries(held, templates, many))  # fmt: skip
            db.execute("commit")
            step(len(many))


def copies(hold: tuple[Any, ...], many: range) -> Iterator[tuple[Any, ...]]:
    """The hold's row under new ids, a millisecond apart."""
    for number in many:
        yield (hold[0], past_id(number), *hold[2:])


def entries(held: Entry, templates: tuple[str, str], many: range) -> Iterator[tuple[Any, ...]]:
    """Its two entries, under new ids and numbers."""
    for number in many:
        hold_id = past_id(number)
        for offset, template in enumerate(templates):
            seq = 2 + 2 * number + offset
            body = template.replace(held.subject, hold_id)
            yield (seq, held.tenant, hold_id, body, entry_checksum(seq, body.encode()))


def past_id(number: int) -> str:
    """Ids in order, as if minted recently."""
    return minted_id(START + number * 1_000, number.to_bytes(10, "big"))


START = time_ns() // 1_000 - 86_400 * SECOND


def measure(paths: dict[int, Path], rounds: int, step: Callable[[], None]) -> list[Age]:
    """Measure both files alternately: a single caller, then batches."""
    alone: dict[int, list[float]] = {past: [] for past in paths}
    for turn in range(rounds):
        for past, path in in_turn(paths, turn):
            alone[past].append(single(path, 300))
            step()
    batched: dict[int, list[float]] = {past: [] for past in paths}
    for turn in range(rounds):
        for past, path in in_turn(paths, turn):
            batched[past].append(in_batches(path, 12, turn))
            step()
    return [Age(past, alone[past], batched[past]) for past in paths]


def in_turn(paths: dict[int, Path], turn: int) -> list[tuple[int, Path]]:
    """The order changes with every round."""
    pairs = list(paths.items())
    return pairs if turn % 2 == 0 else pairs[::-1]


def single(path: Path, holds: int) -> float:
    """Median seconds per hold of one sync caller."""
    taken: list[float] = []
    with holdkit.connect(url(path)) as hk:
        for _ in range(holds):
            begin = perf_counter()
            hk.hold(POOL, 1, ttl=TTL)
            taken.append(perf_counter() - begin)
    return median(taken)


def in_batches(path: Path, batches: int, turn: int) -> float:
    """Seconds per hold in batches of 256."""
    work = [place_groups(BATCH, turn * batches + batch, time_ns() // 1_000) for batch in range(batches)]
    engine = open_engine(path)
    try:
        return timed_apply(engine, work) / (batches * BATCH)
    finally:
        engine.close()


def expect_sound(path: Path) -> None:
    """The generated rows must be ones that Holdkit itself could have written."""
    with holdkit.connect(url(path)) as hk:
        report = hk.verify()
    if not report.ok:
        raise BenchFailed(f"the made-up past does not verify: {report.differences[:3]}")
