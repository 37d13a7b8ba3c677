"""The table: one row per scenario, one column per variant, Holdkit compared with the best hand-written one."""

from __future__ import annotations

from statistics import median
from typing import Final

from msgspec import structs
from rich.console import Console
from rich.table import Table

from ..figures import LATENCY, RATE, Figure, compared
from .part import Measured
from .runs import PostgresRun
from .stores import BY_HAND, EACH, REDIS, Variant

BESIDE: Final[dict[Variant, str]] = {
    EACH: "one statement, a connection for each caller",
    REDIS: "Redis, a Lua script",
    "before": "the other revision",
    "ordinary": "Holdkit without guarded batches",
}
"""The variants, as a reader of the table knows them."""


def by_scenario(measured: Measured) -> dict[str, dict[Variant, list[PostgresRun]]]:
    """In the order they were run."""
    found: dict[str, dict[Variant, list[PostgresRun]]] = {}
    for one in measured.runs:
        found.setdefault(one.scenario, {}).setdefault(one.variant, []).append(one)
    return found


def rate(runs: list[PostgresRun]) -> float:
    """The median over the rounds."""
    return median(one.per_second for one in runs)


def best_by_hand(variants: dict[Variant, list[PostgresRun]]) -> list[Variant]:
    """Return the fastest hand-written variant, if any ran."""
    by_hand: list[Variant] = [variant for variant in BY_HAND if variant in variants]
    return sorted(by_hand, key=lambda variant: rate(variants[variant]))[-1:]


def figures(measured: Measured) -> list[Figure]:
    """Compare Holdkit with the best hand-written variant and with the others that ran."""
    found: list[Figure] = []
    for name, variants in by_scenario(measured).items():
        others: list[Variant] = [
            *best_by_hand(variants),
            *(one for one in (EACH, REDIS, "before", "ordinary") if one in variants),
        ]
        for other in others:
            title = f"PostgreSQL, {name}, beside {BESIDE.get(other, other)}"
            alone = name.startswith("1 ")
            before, after = (
                [1e6 * one.p50 if alone else one.per_second for one in variants[variant]] for variant in (other, "ours")
            )
            made = compared("postgres", title, LATENCY if alone else RATE, before, after)
            found.append(structs.replace(made, against=BESIDE[other] if other == "before" else ""))
    return found


def print_measured(console: Console, measured: Measured) -> None:
    """Rates and latencies of all, what a hold costs, then the limit."""
    table = Table(title=f"PostgreSQL {measured.version}: holds/s, in brackets p50 / p99 in ms; medians")
    table.add_column("")
    for variant in measured.variants:
        table.add_column(variant, justify="right")
    compared_with = "the other revision" if "before" in measured.variants else "best by hand"
    table.add_column(f"Holdkit / {compared_with}", justify="right")
    for name, variants in by_scenario(measured).items():
        cells = [cell(variants[variant]) if variant in variants else "" for variant in measured.variants]
        yardstick: Variant = "before" if "before" in variants else best_by_hand(variants)[0]
        cells.append(f"{rate(variants['ours']) / rate(variants[yardstick]):.2f}×")
        table.add_row(name, *cells)
    console.print(table)
    print_costs(console, measured)
    sizes = dict.fromkeys(one.batch for one in measured.limits)
    for batch in sizes:
        taken = median(one.per_second for one in measured.limits if one.batch == batch)
        console.print(f"the same rows from ready-made arrays, batches of {batch}: {taken:,.0f} holds/s")


def print_costs(console: Console, measured: Measured) -> None:
    """Per hold: CPU of callers and server, bytes of WAL and of tables, commands per batch."""
    table = Table(title="per hold: µs CPU of callers + server, bytes of WAL / tables; commands per batch; medians")
    for heading in ("", *measured.variants):
        table.add_column(heading, justify="right" if heading else "left")
    for name, variants in by_scenario(measured).items():
        table.add_row(name, *(costs(variants[one]) if one in variants else "" for one in measured.variants))
    console.print(table)


def costs(runs: list[PostgresRun]) -> str:
    """One variant of one scenario."""
    cpu, server = (1e6 * median(values) for values in zip(*((one.cpu, one.server_cpu) for one in runs), strict=True))
    wal, stored, batch, guarded = (
        median(values) for values in zip(*((one.wal, one.stored, one.batch, one.guarded) for one in runs), strict=True)
    )
    batches = f"; {batch:.1f}" if batch else ""
    batches += f", {100 * guarded:.0f} % guarded" if guarded else ""
    return f"{cpu:.0f} + {server:.0f}, {wal:,.0f} / {stored:,.0f}{batches}"


def cell(runs: list[PostgresRun]) -> str:
    """One variant of one scenario."""
    p50, p99 = (1e3 * median(values) for values in zip(*((one.p50, one.p99) for one in runs), strict=True))
    gave_up = sum(one.gave_up for one in runs)
    return f"{rate(runs):,.0f} ({p50:.1f} / {p99:.1f})" + (f", {gave_up} gave up" if gave_up else "")
