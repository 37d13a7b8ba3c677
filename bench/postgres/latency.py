"""Latency at given rates of arrival, up to saturation: an open loop.

A caller that waits for its answer before it asks again is kind to a slow store: while that stands still, nothing is asked, and nothing
is measured (*coordinated omission*). Here calls arrive at random times of a schedule, and each latency counts from the scheduled
time, whether or not the sender was late. The rates are shares of what each variant reaches with 256 callers in a closed loop, so
that all meet the same loads; a variant that cannot answer a rate in time is not asked higher ones.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct, structs
from rich.console import Console
from rich.table import Table

from holdkit.testing.postgres import PostgresServer

from ..by_hand_redis import redis_server
from ..figures import LATENCY, Figure, compared
from ..revision import Revision
from .part import in_turn
from .runs import SETTINGS, PostgresRun, Runner, processes_of, slower
from .scenarios import Length, Scenario
from .stores import EACH, REDIS, Variant

CROWD: Final = Scenario("tasks", 256)
"""The closed loop that finds what a variant can do at most."""
ARRIVALS: Final = Scenario("tasks", 32)
"""One connection each means that many; the arrivals themselves are not bounded."""
SHARES: Final = (0.25, 0.5, 0.75, 0.9, 1.0)
LENGTH: Final = Length(0.5, 2.0)
QUICK_LENGTH: Final = Length(0.1, 0.4)


class Latencies(Struct, frozen=True):
    """All results."""

    version: str
    saturation: dict[Variant, float]
    """Holds per second in the closed loop."""
    runs: list[PostgresRun]


def measure(
    directory: Path,
    rounds: int,
    length: Length,
    step: Callable[[str], None],
    sync: float = 0,
    against: Revision | None = None,
) -> Latencies:
    """All rates, on a separate server whose data is on the disk of `directory`."""
    with ExitStack() as stack:
        server = stack.enter_context(PostgresServer(SETTINGS | slower(sync), within=directory))
        redis = stack.enter_context(redis_server(directory))
        runner = stack.enter_context(Runner(server, processes_of(against, stack), redis=redis))
        variants: list[Variant] = ["one statement", EACH]
        variants += [REDIS] if redis is not None else []
        variants += ["before"] if against is not None else []
        variants.append("ours")
        found: dict[Variant, list[float]] = {variant: [] for variant in variants}
        for turn in range(rounds):
            for variant in in_turn(variants, turn):
                step(f"saturation, {variant}")
                crowd = ARRIVALS if variant == EACH else CROWD
                found[variant].append(runner.run(crowd, variant, length).per_second)
        saturation = {variant: median(rates) for variant, rates in found.items()}
        runs: list[PostgresRun] = []
        for rate in rates_of(saturation):
            able = [variant for variant in variants if kept_up(runs, variant)]
            for turn in range(rounds):
                for variant in in_turn(able, turn) if able else ():
                    step(f"{rate:,.0f} arrivals/s, {variant}")
                    runs.append(runner.run(ARRIVALS, variant, length, rate))
        return Latencies(runner.version, saturation, runs)


def rates_of(saturation: dict[Variant, float]) -> list[float]:
    """Shares of what the guarded statement reaches, and of what Holdkit reaches."""
    most = {saturation["one statement"], saturation["ours"]}
    return sorted({float(round(share * one)) for one in most for share in SHARES})


def kept_up(runs: list[PostgresRun], variant: Variant) -> bool:
    """Whether the variant answered the highest rate so far in time, in most of its rounds."""
    mine = [one for one in runs if one.variant == variant]
    last = [one for one in mine if one.rate == mine[-1].rate]
    return sum(one.in_time for one in last) * 2 >= len(last)


def by_rate(measured: Latencies) -> dict[float, dict[Variant, list[PostgresRun]]]:
    """In order of rates."""
    found: dict[float, dict[Variant, list[PostgresRun]]] = {}
    for one in measured.runs:
        assert one.rate is not None
        found.setdefault(one.rate, {}).setdefault(one.variant, []).append(one)
    return found


def figures(measured: Latencies) -> list[Figure]:
    """p99 compared with by hand, at the rates that both answer in time."""
    found: list[Figure] = []
    for rate, variants in by_rate(measured).items():
        for other in ("one statement", "before"):
            both = [variants.get(name, []) for name in (other, "ours")]
            if all(runs and all(one.in_time for one in runs) for runs in both):
                name = f"p99 at {rate:,.0f} arrivals/s, beside {other}"
                made = compared("latency", name, LATENCY, *([1e6 * one.p99 for one in runs] for runs in both))
                found.append(structs.replace(made, against="the other revision" if other == "before" else ""))
    return found


def print_latencies(console: Console, measured: Latencies) -> None:
    """A row per rate."""
    variants = list(measured.saturation)
    table = Table(title=f"PostgreSQL {measured.version}: p50 / p99 / p99.9 in ms from the scheduled time; medians")
    table.add_column("arrivals/s", justify="right")
    for variant in variants:
        table.add_column(variant, justify="right")
    for rate, found in by_rate(measured).items():
        table.add_row(f"{rate:,.0f}", *(cell(found.get(variant, [])) for variant in variants))
    table.add_row("closed loop", *(f"{measured.saturation[variant]:,.0f}/s" for variant in variants))
    console.print(table)


def cell(runs: list[PostgresRun]) -> str:
    """One variant at one rate."""
    if not runs:
        return "overloaded before"
    p50, p99, p999 = (
        1e3 * median(values) for values in zip(*((one.p50, one.p99, one.p999) for one in runs), strict=True)
    )
    late = sum(not one.in_time for one in runs)
    return f"{p50:.1f} / {p99:.1f} / {p999:.1f}" + (f", overloaded in {late} of {len(runs)}" if late else "")
