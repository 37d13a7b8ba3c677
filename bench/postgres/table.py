"""What people read: one line per scenario, every side in its column, ours held against the best by hand."""

from __future__ import annotations

from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from ..figures import LATENCY, RATE, Figure, compared
from .part import Measured, PostgresRun
from .sides import BY_HAND, Side

AT_LEAST: Final[dict[str, float]] = {}
"""Rates to reach, as a multiple of the best by hand, by the name of the scenario."""
AT_MOST: Final[dict[str, float]] = {}
"""Latencies to keep within, for lone callers."""


def by_scenario(measured: Measured) -> dict[str, dict[Side, list[PostgresRun]]]:
    """In the order they were run."""
    found: dict[str, dict[Side, list[PostgresRun]]] = {}
    for one in measured.runs:
        found.setdefault(one.scenario, {}).setdefault(one.side, []).append(one)
    return found


def rate(runs: list[PostgresRun]) -> float:
    """The median over the rounds."""
    return median(one.per_second for one in runs)


def best_by_hand(sides: dict[Side, list[PostgresRun]]) -> Side:
    """The fastest that does not come from us."""
    return max((side for side in BY_HAND if side in sides), key=lambda side: rate(sides[side]))


def figures(measured: Measured) -> list[Figure]:
    """Ours beside the best by hand, in the form of the other parts."""
    found: list[Figure] = []
    for name, sides in by_scenario(measured).items():
        best, ours = sides[best_by_hand(sides)], sides["ours"]
        title = f"PostgreSQL, {name}"
        if name.startswith("1 "):
            before, after = ([1e6 * one.p50 for one in runs] for runs in (best, ours))
            found.append(compared("postgres", title, LATENCY, before, after, at_most=AT_MOST.get(name)))
        else:
            before, after = ([one.per_second for one in runs] for runs in (best, ours))
            found.append(compared("postgres", title, RATE, before, after, at_least=AT_LEAST.get(name)))
    return found


def print_measured(console: Console, measured: Measured) -> None:
    """Rates and latencies of all, then the limit."""
    table = Table(title=f"PostgreSQL {measured.version}: holds/s, in brackets p50 / p99 in ms; medians")
    table.add_column("")
    for side in measured.sides:
        table.add_column(side, justify="right")
    table.add_column("ours / best by hand", justify="right")
    for name, sides in by_scenario(measured).items():
        cells = [cell(sides[side]) for side in measured.sides]
        cells.append(f"{rate(sides['ours']) / rate(sides[best_by_hand(sides)]):.2f}×")
        table.add_row(name, *cells)
    console.print(table)
    sizes = dict.fromkeys(one.batch for one in measured.limits)
    for batch in sizes:
        taken = median(one.per_second for one in measured.limits if one.batch == batch)
        console.print(f"the same rows from ready-made arrays, batches of {batch}: {taken:,.0f} holds/s")


def cell(runs: list[PostgresRun]) -> str:
    """One side of one scenario."""
    p50, p99 = (1e3 * median(values) for values in zip(*((one.p50, one.p99) for one in runs), strict=True))
    gave_up = sum(one.gave_up for one in runs)
    return f"{rate(runs):,.0f} ({p50:.1f} / {p99:.1f})" + (f", {gave_up} gave up" if gave_up else "")
