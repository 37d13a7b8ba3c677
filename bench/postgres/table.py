"""The table: one row per scenario, one column per variant, Holdkit compared with the best hand-written one."""

from __future__ import annotations

from statistics import median
from typing import Final

from rich.console import Console
from rich.table import Table

from ..figures import LATENCY, RATE, Figure, compared
from .part import Measured, PostgresRun
from .stores import BY_HAND, Variant

AT_LEAST: Final = {"32 threads, 1 pool": 8.0, "32 tasks, 1 pool": 8.0}
"""Rates to reach, as a multiple of the best by hand, by the name of the scenario."""
AT_MOST: Final = {"1 thread, 1 pool": 2.0, "1 task, 1 pool": 2.0}
"""Latencies to keep within, for lone callers."""
TIMES_SERIALIZABLE: Final = 80.0
P99: Final = 0.25
OF_THE_LIMIT: Final = 0.6
CROWD, MANY, SEVERAL, ONE = (
    "32 tasks, 1 pool",
    "256 tasks, 1 pool",
    " threads in 4 processes, 1 pool",
    " threads, 1 pool",
)


def by_scenario(measured: Measured) -> dict[str, dict[Variant, list[PostgresRun]]]:
    """In the order they were run."""
    found: dict[str, dict[Variant, list[PostgresRun]]] = {}
    for one in measured.runs:
        found.setdefault(one.scenario, {}).setdefault(one.variant, []).append(one)
    return found


def rate(runs: list[PostgresRun]) -> float:
    """The median over the rounds."""
    return median(one.per_second for one in runs)


def best_by_hand(variants: dict[Variant, list[PostgresRun]]) -> Variant:
    """The fastest hand-written variant."""
    return max((variant for variant in BY_HAND if variant in variants), key=lambda variant: rate(variants[variant]))


def figures(measured: Measured) -> list[Figure]:
    """Holdkit compared with the best hand-written variant, in the form of the other parts."""
    found: list[Figure] = []
    for name, variants in by_scenario(measured).items():
        best, ours = variants[best_by_hand(variants)], variants["ours"]
        title = f"PostgreSQL, {name}"
        if name.startswith("1 "):
            before, after = ([1e6 * one.p50 for one in runs] for runs in (best, ours))
            found.append(compared("postgres", title, LATENCY, before, after, at_most=AT_MOST.get(name)))
        else:
            before, after = ([one.per_second for one in runs] for runs in (best, ours))
            found.append(compared("postgres", title, RATE, before, after, at_least=AT_LEAST.get(name)))
    return found


def goals(measured: Measured) -> list[Figure]:
    """Further goals: against the slowest hand-written variant, the slowest calls, the server's limit, several processes."""
    found: list[Figure] = []
    runs = by_scenario(measured)
    if CROWD in runs:
        slowest, best, ours = (runs[CROWD][variant] for variant in ("serializable", best_by_hand(runs[CROWD]), "ours"))
        found.append(compared_rates("32 tasks compared with SERIALIZABLE", slowest, ours, at_least=TIMES_SERIALIZABLE))
        before, after = ([1e6 * one.p99 for one in variant] for variant in (best, ours))
        found.append(compared("postgres", "PostgreSQL, p99 of 32 tasks", LATENCY, before, after, at_most=P99))
    limit = [one.per_second for one in measured.limits if one.batch == 256]
    if MANY in runs and limit:
        ours = runs[MANY]["ours"]
        name = "PostgreSQL, 256 tasks compared with the server's limit"
        rates = [one.per_second for one in ours]
        found.append(compared("postgres", name, RATE, limit, rates, at_least=OF_THE_LIMIT))
    for count in ("32", "256"):
        one, several = runs.get(count + ONE), runs.get(count + SEVERAL)
        if one and several:
            name = f"{count} threads in 4 processes compared with one"
            found.append(compared_rates(name, one["ours"], several["ours"], at_least=1.0))
    return found


def compared_rates(name: str, other: list[PostgresRun], ours: list[PostgresRun], *, at_least: float) -> Figure:
    """One rate compared with another."""
    before, after = ([one.per_second for one in runs] for runs in (other, ours))
    return compared("postgres", f"PostgreSQL, {name}", RATE, before, after, at_least=at_least)


def print_measured(console: Console, measured: Measured) -> None:
    """Rates and latencies of all, then the limit."""
    table = Table(title=f"PostgreSQL {measured.version}: holds/s, in brackets p50 / p99 in ms; medians")
    table.add_column("")
    for variant in measured.variants:
        table.add_column(variant, justify="right")
    table.add_column("Holdkit / best by hand", justify="right")
    for name, variants in by_scenario(measured).items():
        cells = [cell(variants[variant]) for variant in measured.variants]
        cells.append(f"{rate(variants['ours']) / rate(variants[best_by_hand(variants)]):.2f}×")
        table.add_row(name, *cells)
    console.print(table)
    sizes = dict.fromkeys(one.batch for one in measured.limits)
    for batch in sizes:
        taken = median(one.per_second for one in measured.limits if one.batch == batch)
        console.print(f"the same rows from ready-made arrays, batches of {batch}: {taken:,.0f} holds/s")


def cell(runs: list[PostgresRun]) -> str:
    """One variant of one scenario."""
    p50, p99 = (1e3 * median(values) for values in zip(*((one.p50, one.p99) for one in runs), strict=True))
    gave_up = sum(one.gave_up for one in runs)
    return f"{rate(runs):,.0f} ({p50:.1f} / {p99:.1f})" + (f", {gave_up} gave up" if gave_up else "")
