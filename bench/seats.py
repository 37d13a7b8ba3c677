"""The best seats of a section: how long a search with its hold takes while half of the section is sold, on SQLite.

Each call is followed by a release that is not timed, so that every search sees the same house. The hold of the same number of seats by
their ids, measured in turn with it, shows what the search adds.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import perf_counter
from typing import Final

from msgspec import Struct

import holdkit
from holdkit import Hold, Seat

from .figures import Figure
from .rows import BenchFailed
from .stores import url

SECTIONS: Final = (2_000, 10_000)
ROW: Final = 50
TOGETHER: Final = 4
GOAL: Final = 5.0
"""Milliseconds for the best four of 2,000 seats."""
CALLS: Final = 200


class Searched(Struct, frozen=True):
    """Times in milliseconds."""

    seats: int
    best: list[float]
    """Of `seats.hold`."""
    by_id: list[float]
    """Of `items.hold`."""


def measure(directory: Path, seats: int, calls: int) -> Searched:
    """Sell half of a section in groups of one to six, then search and hold."""
    with holdkit.connect(url(directory / f"seats-{seats}.db")) as hk:
        hk.seats.add([Seat(f"show:42/{n // ROW}/{n % ROW}", "stalls", n // ROW, n % ROW) for n in range(seats)])
        random, sold = Random(seats), 0
        while sold < seats // 2:
            count = random.randint(1, 6)
            hk.seats.hold(count, section="stalls", ttl="1h")
            sold += count
        best, by_id = list[float](), list[float]()
        for _ in range(calls):
            hold = _timed(best, lambda: hk.seats.hold(TOGETHER, section="stalls", ttl="1h"))
            hk.release(hold)
            ids = [leg.pool.removeprefix("~item/") for leg in hold.legs]
            hk.release(_timed(by_id, lambda ids=ids: hk.items.hold(ids, ttl="1h")))  # type: ignore[misc]
        free = [item for item in hk.items.get(seat.id for seat in hk.seats.list("stalls")) if item.hold is None]
        if len(free) != seats - sold:
            raise BenchFailed(f"{len(free)} of {seats} seats are free, {seats - sold} were left")
    return Searched(seats, best, by_id)


def _timed(times: list[float], call: Callable[[], Hold]) -> Hold:
    begin = perf_counter()
    hold = call()
    times.append(1e3 * (perf_counter() - begin))
    return hold


def figures(runs: list[Searched]) -> list[Figure]:
    """The median against the goal, and against holding the same seats by their ids."""
    found: list[Figure] = []
    for run in runs:
        ours, name = median(run.best), f"best {TOGETHER} of {run.seats:,} seats"
        note = f"p99 {quantiles(run.best, n=100)[-1]:.1f} ms, by id {median(run.by_id):.1f} ms"
        goal = GOAL if run.seats == SECTIONS[0] else None
        found.append(Figure("seats", name, "ms", goal, ours, goal and ours / goal, at_most=goal and 1.0, note=note))
    return found
