"""Every target of the project's speed in one table: what is compared, the target, what was measured, the verdict.

All sides of a comparison alternate in one run; the order changes with every round, and a ratio is the median of the rounds' own
ratios. *By hand* is the guarded statement on tuned connections: 4 of one process, 2 in each of four. *One each* is the same statement with a
connection for each caller. Two servers run, one on the disk as it is and one whose syncs take a millisecond longer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final, Literal, TypeAlias

from msgspec import Struct, structs

from holdkit.testing.postgres import PostgresServer

from .by_hand_postgres import LimitRun
from .figures import LATENCY, RATE, Figure, compared
from .postgres.part import in_turn, limit_round
from .postgres.runs import SETTINGS, PostgresRun, Runner, Used, processes_of, slower, starting, summary
from .postgres.scenarios import Length, Scenario
from .postgres.stores import EACH, Variant
from .postgres.worker_processes import WorkerProcesses
from .revision import Revision

BEFORE: Final = "95b1da0a"
"""The revision that every scenario is compared with, unless another one is named: the one before the names of API 1.0."""
Value: TypeAlias = Literal["rate", "p50", "p99"]
Disk: TypeAlias = Literal["as it is", "slower"]
DISKS: Final[dict[Disk, float]] = {"as it is": 0.0, "slower": 1.0}
"""Milliseconds that each sync takes longer."""
LIMIT: Final = (256, 60)
"""Size and number of the batches of the server's limit."""
SQLITE: Final = Scenario("tasks", 256, work="plain")
OF_THE_LIMIT: Final = 0.45
MANY: Final = Scenario("tasks", 256)


class Target(Struct, frozen=True):
    """Holdkit compared with another variant of one scenario."""

    name: str
    scenario: Scenario
    other: Variant
    value: Value = "rate"
    at_least: float | None = None
    at_most: float | None = None
    disk: Disk = "as it is"


CROWD: Final = Scenario("tasks", 32)
TARGETS: Final = (
    Target("32 tasks, beside by hand", CROWD, "one statement", at_least=6),
    Target("32 tasks, beside one connection each", CROWD, EACH, at_least=12),
    Target("32 tasks with slower syncs, beside by hand", CROWD, "one statement", at_least=14, disk="slower"),
    Target("32 threads, beside by hand", Scenario("threads", 32), "one statement", at_least=4),
    Target("4 processes of 8 threads, beside by hand", Scenario("processes", 32), "one statement", at_least=3),
    Target("p99 of 32 tasks, beside one connection each", CROWD, EACH, "p99", at_most=0.25),
    Target("a lone sync caller, beside by hand", Scenario("threads", 1), "one statement", "p50", at_most=1.6),
    Target("hold and confirm, 32 tasks, beside by hand", Scenario("tasks", 32, work="lifecycle"), "one statement", at_least=5),
    Target("tx=, beside the same by hand", Scenario("threads", 1, work="tx"), "one statement", "p50", at_most=1.6),
)  # fmt: skip

UNGUARDED: Final = (CROWD, Scenario("processes", 32), Scenario("threads", 1), Scenario("tasks", 32, work="lifecycle"))
"""Scenarios that also run without guarded batches: what these give by themselves."""
LENGTH: Final = Length(0.15, 0.65)
NOTED: Final = {"wal": "WAL", "stored": "tables"}


class Measured(Struct, frozen=True):
    """All runs."""

    against: str | None
    runs: dict[Disk, list[PostgresRun]]
    limits: list[LimitRun]
    sqlite: list[PostgresRun]


def wanted(disk: Disk, *, against: bool) -> list[tuple[Scenario, list[Variant]]]:
    """The scenarios on one disk, each with the variants that its targets need."""
    found: dict[Scenario, list[Variant]] = {}
    for target in TARGETS:
        if target.disk == disk and target.other not in found.setdefault(target.scenario, []):
            found[target.scenario].append(target.other)
    if disk == "as it is":
        found[MANY] = []
    before: list[Variant] = ["before"] if against else []
    ordinary: list[Variant] = ["ordinary"]
    return [
        (scenario, [*variants, *before, *(ordinary if disk == "as it is" and scenario in UNGUARDED else []), "ours"])
        for scenario, variants in found.items()
    ]


def measure(
    directory: Path, rounds: int, length: Length, step: Callable[[str], None], against: Revision | None
) -> Measured:
    """All rounds."""
    measured = Measured(None if against is None else against.name, {disk: [] for disk in DISKS}, [], [])
    with ExitStack() as stack:
        workers = processes_of(against, stack)
        runners: dict[Disk, Runner] = {}
        for disk, sync in DISKS.items():
            server = stack.enter_context(PostgresServer(SETTINGS | slower(sync), within=directory))
            runners[disk] = stack.enter_context(Runner(server, workers))
        for turn in range(rounds):
            for disk, runner in runners.items():
                for scenario, variants in wanted(disk, against=against is not None):
                    for variant in in_turn(variants, turn):
                        step(f"{scenario.name}, {variant}")
                        measured.runs[disk].append(runner.run(scenario, variant, length))
            measured.limits.extend(limit_round(runners["as it is"].server, [LIMIT], step))
            for variant in in_turn(list(workers), turn):
                step(f"SQLite, {variant}")
                path = directory / f"{variant}-{turn}.db"
                measured.sqlite.append(on_sqlite(workers[variant], variant, path, length))
    return measured


def on_sqlite(workers: WorkerProcesses, variant: Variant, path: Path, length: Length) -> PostgresRun:
    """256 tasks on a fresh file."""
    url = f"sqlite:///{path.resolve()}"
    workers.prepare(variant, url, SQLITE.pools)
    workers.open(SQLITE, variant, url, 1)
    interval = starting(SQLITE, length)
    began = perf_counter()
    workers.start(interval)
    calls = workers.calls()
    workers.check(variant, url, len(calls.done), SQLITE)
    path.unlink()
    return summary(SQLITE, variant, interval, calls, [Used(0, 0, 0), Used(perf_counter() - began, 0, 0)], 0)


def figures(measured: Measured) -> list[Figure]:
    """The table, in the order of the targets; below it, every scenario compared with the other revision."""
    found = [
        figure(
            target, of(measured.runs[target.disk], target.scenario, target.other), ours(measured, target.disk, target)
        )
        for target in TARGETS
    ]
    limit, many = (
        [one.per_second for one in runs]
        for runs in (measured.limits, of(measured.runs["as it is"], MANY, "ours"))
    )  # fmt: skip
    found.append(
        steady(compared("targets", "256 tasks, beside the server's limit", RATE, limit, many, at_least=OF_THE_LIMIT))
    )
    if measured.against is not None:
        before, after = ([one.per_second for one in of(measured.sqlite, SQLITE, side)] for side in ("before", "ours"))
        name = f"SQLite, 256 tasks, beside {measured.against}"
        made = compared("targets", name, RATE, before, after)
        found.append(steady(structs.replace(made, against=measured.against)))
    guards = [beside(measured, "as it is", one, "ordinary", "without guarded batches") for one in UNGUARDED]
    if measured.against is None:
        return found + guards
    changes = [
        beside(measured, disk, scenario, "before", measured.against)
        for disk in DISKS
        for scenario, _ in wanted(disk, against=True)
    ]
    return found + guards + changes


def ours(measured: Measured, disk: Disk, target: Target) -> list[PostgresRun]:
    """Holdkit's runs of a target's scenario."""
    return of(measured.runs[disk], target.scenario, "ours")


def figure(target: Target, other: list[PostgresRun], mine: list[PostgresRun]) -> Figure:
    """One target."""
    before, after = ([value_of(one, target.value) for one in runs] for runs in (other, mine))
    unit = RATE if target.value == "rate" else LATENCY
    made = compared("targets", target.name, unit, before, after, at_least=target.at_least, at_most=target.at_most)
    return steady(made)


def beside(measured: Measured, disk: Disk, scenario: Scenario, side: Variant, name: str) -> Figure:
    """One scenario compared with another side of Holdkit: rate or latency, and CPU per hold, which a busy machine disturbs less."""
    before, after = (of(measured.runs[disk], scenario, one) for one in (side, "ours"))
    value: Value = "p50" if scenario.callers == 1 else "rate"
    unit = LATENCY if scenario.callers == 1 else RATE
    title = f"{scenario.name}{'' if disk == 'as it is' else ', slower syncs'}, beside {name}"
    values = ([value_of(one, value) for one in runs] for runs in (before, after))
    group = "before and after" if side == "before" else "guarded batches"
    made = compared(group, title, unit, *values, note=cpu_note(before, after))
    return steady(structs.replace(made, against=name if side == "before" else ""))


def cpu_note(before: list[PostgresRun], after: list[PostgresRun]) -> str:
    """Per hold, before and now: CPU of callers and server, bytes of WAL, and of tables with their indexes."""
    cells = []
    for name, values in (("CPU", [(one.cpu, two.cpu) for one, two in zip(before, after, strict=True)]),
                         ("server", [(one.server_cpu, two.server_cpu) for one, two in zip(before, after, strict=True)])):  # fmt: skip
        was, now = (1e6 * median(side) for side in zip(*values, strict=True))
        cells.append(f"{name} {was:.0f} → {now:.0f} µs")
    for name in ("wal", "stored"):
        was, now = (median(getattr(one, name) for one in runs) for runs in (before, after))
        cells.append(f"{NOTED[name]} {was:,.0f} → {now:,.0f} bytes")
    return ", ".join(cells)


def steady(made: Figure) -> Figure:
    """Both sides of a round ran under about the same load; a ratio of medians compares rounds of different load."""
    return structs.replace(made, ratio=median(made.ratios))


def of(runs: list[PostgresRun], scenario: Scenario, variant: Variant) -> list[PostgresRun]:
    """The runs of one variant, in order of rounds."""
    return [one for one in runs if (one.scenario, one.variant) == (scenario.name, variant)]


def value_of(run: PostgresRun, value: Value) -> float:
    """In holds per second, or microseconds."""
    return run.per_second if value == "rate" else 1e6 * (run.p50 if value == "p50" else run.p99)
