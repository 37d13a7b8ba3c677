"""What hold, confirm, sweep, history and verify cost after very many past holds, compared with few.

Two databases on one server, alternating: one with 10,000 past holds, one with as many as asked, up to ten million and more. The past is
complete (`past`): holds, their journal, their pools; retention has not removed any of it yet.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final, TypeVar

from msgspec import Struct

import holdkit
from holdkit.core.commands import CreatePool, Group, PlaceHold
from holdkit.core.model import Leg
from holdkit.engines.postgres import PostgresEngine
from holdkit.testing.postgres import PostgresServer

from ..figures import LATENCY, Figure, compared
from ..rows import BenchFailed
from ..verifying import MOST, Verified, measure
from .past import Past
from .runs import SETTINGS
from .scenarios import TOTAL
from .services import POOL, groups

T = TypeVar("T")

FEW: Final = 10_000
USUAL: Final = 1_000_000
QUICK: Final = 50_000
AT_MOST: Final = 1.25
CALLS: Final = 150
BATCH: Final = 256
BATCHES: Final = 8
DUE: Final = 256
SOON: Final = 0.05
"""Seconds after which they are due."""
WHATS: Final = ("hold", f"hold in batches of {BATCH}", "confirm", f"sweep of {DUE} due holds", "history of a past hold")


class Round(Struct, frozen=True):
    """Seconds of each call, after so many past holds."""

    past: int
    took: dict[str, float]


class Grown(Struct, frozen=True):
    """All results."""

    past: int
    filled: float
    """Seconds that the past took to make."""
    stored: int
    """Bytes of the whole database."""
    rounds: list[Round]
    verified: dict[int, Verified]


def grow(directory: Path, past: int, rounds: int, step: Callable[[str, int], None]) -> Grown:
    """Fill both databases, measure them in turn, then verify them."""
    with PostgresServer(SETTINGS, within=directory) as server:
        dsns: dict[int, str] = {}
        some: dict[int, list[str]] = {}
        begin = perf_counter()
        for holds in (FEW, past):
            dsns[holds] = server.create_database(f"after_{holds}")
            holdkit.migrate(dsns[holds])
            made = Past(dsns[holds])
            made.make(holds, lambda many: step("making a past", many))
            some[holds] = made.some(50)
        filled = perf_counter() - begin
        with closing(server.connect()) as connection:
            row = connection.execute("select pg_database_size(%s)", (f"after_{past}",)).fetchone()
        found = []
        for turn in range(rounds + 1):  # the first does not count: it warms both up
            for holds in sorted(dsns, reverse=bool(turn % 2)):
                step(f"after {holds:,} past holds", 0)
                taken = one_round(dsns[holds], some[holds])
                found += [Round(holds, taken)] if turn else []
        verified = {}
        for holds, dsn in dsns.items():
            step(f"verify after {holds:,} past holds", 0)
            verified[holds] = measure(dsn)
        return Grown(past, filled, int(row[0]) if row else 0, found, verified)


def one_round(dsn: str, past: list[str]) -> dict[str, float]:
    """Every kind of call."""
    with closing(holdkit.connect(dsn)) as hk:
        hk.create_pool(POOL, TOTAL, exist_ok=True)
        held, holding = timed([lambda: hk.hold(POOL, 1, ttl="1h") for _ in range(CALLS)])
        _, confirming = timed([lambda one=one: hk.confirm(one) for one in held])  # type: ignore[misc]
        pages, reading = timed([lambda id=id: hk.history(id) for id in past])  # type: ignore[misc]
        if any(len(page) != 2 for page in pages):
            raise BenchFailed("a past hold has not the two entries that it should")
        # All at once, or each would return those before it.
        hk.apply([PlaceHold(legs=(Leg(POOL),), ttl=SOON) for _ in range(DUE)])
        time.sleep(2 * SOON)
        (report,), sweeping = timed([lambda: hk.sweep(DUE)])
        if report.expired != DUE:
            raise BenchFailed(f"{DUE} holds were due, and {report.expired} were swept")
    return dict(zip(WHATS, (holding, batched(dsn), confirming, sweeping, reading), strict=True))


def timed(calls: list[Callable[[], T]]) -> tuple[list[T], float]:
    """The answers, and the median of their times."""
    answers, took = [], []
    for call in calls:
        begin = perf_counter()
        answers.append(call())
        took.append(perf_counter() - begin)
    return answers, median(took)


def batched(dsn: str) -> float:
    """Seconds per hold in batches."""
    with closing(PostgresEngine(dsn)) as engine:
        engine.apply([Group((CreatePool(id=POOL, total=TOTAL),))])  # refused: it exists
        ready = [groups(engine, BATCH) for _ in range(BATCHES)]
        return timed([lambda batch=batch: engine.apply(batch) for batch in ready])[1] / BATCH  # type: ignore[misc]


def figures(grown: Grown) -> list[Figure]:
    """Each call after many past holds compared with few; then what `verify` takes, and bytes."""
    found: list[Figure] = []
    for what in WHATS:
        few, many = ([1e6 * one.took[what] for one in grown.rounds if one.past == past] for past in (FEW, grown.past))
        name = f"{what}, {FEW:,} → {grown.past:,} past holds"
        found.append(compared("growth", name, LATENCY, few, many, at_most=AT_MOST))
    for past, one in grown.verified.items():
        name = f"verify after {past:,} past holds"
        found.append(Figure("growth", f"{name}: memory over idle", "MiB", MOST / 2**20, one.over / 2**20, one.over / MOST,
                            at_most=1.0, note=f"{one.seconds:.1f} s"))  # fmt: skip
    found.append(Figure("growth", "database, bytes per past hold", "bytes", None, grown.stored / grown.past,
                        note=f"filled in {grown.filled:.0f} s"))  # fmt: skip
    return found
