"""``python -m bench``: measure, compare, print. Fails only if a run did not do what it claims."""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from holdkit.testing.postgres.binaries import NoPostgres, find

from . import ageing, log_speed, memory, seats, verifying
from .comparison import SCENARIOS, Run, play
from .core_speed import core_speed
from .disk import MEMORY_FILE_SYSTEMS, FlushCounter, file_system, flush_counter, sync_time
from .figures import Figure, age_figures, callers_figure, core_figure, memory_figure, raw_figure, verify_figures
from .postgres import part as on_postgres
from .postgres import scenarios as postgres_scenarios
from .postgres import table as postgres_table
from .postgres.stores import CONNECTIONS
from .raw import RawRound, raw_rounds
from .report import print_setting, print_table, setting, write_json, write_plot
from .rows import BenchFailed
from .server import fairness
from .server import part as over_http
from .syncs import count_all, strace_missing

PARTS = ("syncs", "callers", "engine", "log", "core", "age", "memory", "seats", "verify", "postgres", "server",
         "fairness")  # fmt: skip
BUILD = Path(".build")


class Bench:
    """One run of the bench: its options, its directory, its results."""

    def __init__(self, options: argparse.Namespace, directory: Path, progress: Progress) -> None:
        self.quick: bool = options.quick
        self.rounds: int = options.rounds or (3 if options.quick else 5)
        self.sync: float = options.sync
        self.connections: int = options.connections
        self.against: str | None = options.against
        self.few_rounds: int = options.rounds or (1 if options.quick else 3)  # where one round is long
        self.directory, self.progress = directory, progress
        self.flushes: FlushCounter | None = flush_counter(directory)
        self.figures: list[Figure] = []
        self.runs: dict[str, Any] = {}

    def syncs(self) -> None:
        """Count syncs exactly, before anything is measured."""
        missing = strace_missing()
        if missing is not None:
            self.progress.console.print(f"[yellow]{missing}: the syncs of short runs are not counted[/]")
            return
        bar = self.progress.add_task("syncs, by strace", total=1)
        self.runs["syncs"] = counted = count_all(self.directory)
        self.progress.update(bar, completed=1)
        for one in counted:
            self.progress.console.print(
                f"syncs by strace: {one.variant}, {one.scenario}: {one.holds} holds in {one.batches} batches, {one.syncs} syncs"
            )

    def callers(self) -> None:
        """Hand-written and Holdkit, with 1, 32 and 256 callers."""
        runs: list[Run] = []
        scenarios = [scenario.quicker() for scenario in SCENARIOS] if self.quick else list(SCENARIOS)
        bar = self.progress.add_task("callers", total=2 * self.rounds * len(scenarios))
        for scenario in scenarios:
            self.progress.update(bar, description=scenario.name)
            played = play(scenario, self.rounds, self.directory, self.flushes, lambda: self.progress.advance(bar))
            self.figures.append(callers_figure(played))
            runs += played
        self.runs["callers"] = runs

    def engine(self) -> None:
        """`engine.apply` compared with raw writes of the same rows."""
        runs: list[RawRound] = []
        sizes = {1: 1_000, 32: 6_400, 256: 12_800}
        bar = self.progress.add_task("engine.apply", total=self.rounds * len(sizes))
        for batch, holds in sizes.items():
            with tempfile.TemporaryDirectory(dir=self.directory) as place:
                rounds = raw_rounds(
                    batch, holds, self.rounds, Path(place), self.flushes, lambda: self.progress.advance(bar)
                )
            self.figures.append(raw_figure(rounds))
            runs += rounds
        self.runs["engine"] = runs

    def log(self) -> None:
        """`hk.apply` on the log engine compared with raw writes of the same bytes; opening; memory."""
        place = self.directory / "log"
        place.mkdir()
        share = 4 if self.quick else 1
        sizes = {1: 2_000, 32: 12_800, 256: 51_200, 1_000: 100_000, 8_000: 160_000}
        bar = self.progress.add_task("log engine", total=self.rounds * (len(sizes) + 1) + 2)

        def step() -> None:
            self.progress.advance(bar)

        runs = [
            log_speed.speed(batch, max(batch, holds // share), self.rounds, place, step)
            for batch, holds in sizes.items()
        ]
        runs.append(log_speed.speed(1_000, 100_000 // share, self.rounds, place, step, with_op=True))
        entries = 1_000_000 // (10 if self.quick else 1)
        opened = (entries, *log_speed.opening(place, entries))
        step()
        weighed = log_speed.weights(place, 100_000 // share)
        step()
        self.figures += log_speed.figures(runs, opened, weighed)
        self.runs["log"] = {"apply": runs, "opening": opened, "bytes": weighed}

    def core(self) -> None:
        """Decisions per second."""
        bar = self.progress.add_task("core", total=3)
        self.runs["core"] = []
        for batch in (1, 32, 256):
            speed = core_speed(batch, self.rounds)
            self.figures.append(core_figure(speed))
            self.runs["core"].append(speed)
            self.progress.advance(bar)

    def age(self) -> None:
        """A database with few past holds and one with many."""
        pasts = (10_000, 100_000 if self.quick else 1_000_000)
        paths = {past: self.directory / f"past-{past}.db" for past in pasts}
        bar = self.progress.add_task("making a past", total=sum(pasts))
        for past, path in paths.items():
            ageing.make_past(path, past, lambda many: self.progress.advance(bar, many))
        ageing.expect_sound(paths[pasts[0]])
        rounds = 2 * self.rounds
        bar = self.progress.add_task("holds after a long past", total=4 * rounds)
        young, old = ageing.measure(paths, rounds, lambda: self.progress.advance(bar))
        self.figures += age_figures(young, old)
        self.runs["age"] = [young, old]
        for path in paths.values():
            path.unlink()

    def memory(self) -> None:
        """Memory under endless hold and release."""
        if not memory.STATM.exists():
            self.progress.console.print("[yellow]this system does not tell a process its memory: not measured[/]")
            return
        marks = 3
        pairs = 48_000 if self.quick else 150_000
        bar = self.progress.add_task("endless hold and release", total=marks)
        found = memory.measure(self.directory / "endless.db", pairs, marks, lambda: self.progress.advance(bar))
        self.figures.append(memory_figure(found))
        self.runs["memory"] = found

    def seats(self) -> None:
        """The best seats of a section that is half sold."""
        calls = seats.CALLS // (4 if self.quick else 1)
        self.runs["seats"] = [seats.measure(self.directory, many, calls) for many in seats.SECTIONS]
        self.figures += seats.figures(self.runs["seats"])

    def verify(self) -> None:
        """`verify` and a dry run of `repair` on a long journal."""
        if not verifying.STATUS.exists():
            self.progress.console.print("[yellow]this system does not tell a process its memory: not measured[/]")
            return
        self.runs["verify"] = {}
        for engine, entries in (verifying.QUICK if self.quick else verifying.ENTRIES).items():
            advance = partial(self.progress.advance, self.progress.add_task(f"verify, {engine}", total=entries + 2))
            with verifying.filled(engine, self.directory, entries, advance) as place:
                if place is None:
                    continue
                runs = {}
                for what in ("verify", "repair"):
                    runs[what] = verifying.measure(place, what)
                    advance(1)
            self.figures += verify_figures(engine, entries, runs)
            self.runs["verify"][engine] = runs

    def postgres(self) -> None:
        """Three hand-written variants, Holdkit, and the server's limit."""
        try:
            find()
        except NoPostgres as missing:
            self.progress.console.print(f"[yellow]{missing}[/]")
            return
        self.directory.chmod(0o711)  # PostgreSQL does not run as root, and must be able to enter the directory
        callers = postgres_scenarios.QUICK_CALLERS if self.quick else postgres_scenarios.CALLERS
        length = postgres_scenarios.QUICK_LENGTH if self.quick else postgres_scenarios.LENGTH
        scenarios = postgres_scenarios.scenarios(callers, postgres_scenarios.POOLS)
        bar = self.progress.add_task("PostgreSQL", total=None)
        measured = on_postgres.measure(
            self.directory, scenarios, self.few_rounds, length,
            lambda name: self.progress.update(bar, advance=1, description=f"PostgreSQL, {name}"), self.sync,
            self.connections,
        )  # fmt: skip
        self.figures += postgres_table.figures(measured) + postgres_table.goals(measured)
        self.runs["postgres"] = measured
        postgres_table.print_measured(self.progress.console, measured)

    def server(self) -> None:
        """Over HTTP, compared with another revision if one is named."""
        self.directory.chmod(0o711)
        bar = self.progress.add_task("server", total=None)
        seconds = 1.0 if self.quick else 2.0
        rows = over_http.run(
            self.directory,
            seconds,
            self.few_rounds,
            lambda name: self.progress.update(bar, advance=1, description=name),
            self.against,
        )
        self.runs["server"] = rows
        for engine in ("sqlite", "postgres"):
            ours = [one for one in rows if one.engine == engine]
            self.figures += over_http.figures(ours, self.against) if ours else []

    def fairness(self) -> None:
        """A quiet tenant beside one that sends all it can."""
        bar = self.progress.add_task("fairness", total=None)
        seconds = 2.0 if self.quick else 5.0
        rows = fairness.run(
            self.directory,
            seconds,
            self.few_rounds,
            lambda name: self.progress.update(bar, advance=1, description=name),
        )
        self.runs["fairness"] = rows
        self.figures += fairness.figures(rows)


def options_of(arguments: list[str] | None) -> argparse.Namespace:
    """The parsed options."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a taste: fewer rounds, fewer holds, a shorter past")
    parser.add_argument(
        "--rounds", type=int, help="rounds per scenario (5, with --quick 3; PostgreSQL and the server 3 and 1)"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="some parts only")
    parser.add_argument("--dir", type=Path, default=BUILD, help="where the databases go: a real disk, not memory")
    parser.add_argument(
        "--sync",
        type=float,
        default=0,
        help="PostgreSQL: milliseconds that every sync takes longer, as on a disk in a cloud",
    )
    parser.add_argument(
        "--connections",
        type=int,
        default=CONNECTIONS,
        help="PostgreSQL: most connections of the hand-written variants (4 is their fastest; 256: one for each caller)",
    )
    parser.add_argument(
        "--against", metavar="REV", help="server: another revision of the project, run beside this one, alternating"
    )
    parser.add_argument("--json", type=Path, default=BUILD / "bench.json", help="where every run is written")
    parser.add_argument("--plot", type=Path, default=BUILD / "bench.png", help="where the plot is written")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the requested parts; return 1 if a check failed."""
    options = options_of(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    options.dir.mkdir(parents=True, exist_ok=True)
    kind = file_system(options.dir)
    if kind in MEMORY_FILE_SYSTEMS:
        console.print(f"[red]{options.dir} is on {kind}, where a sync costs nothing: choose a disk with --dir[/]")
        return 1
    where = setting(kind, sync_time(options.dir))
    print_setting(console, where)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(dir=options.dir, prefix="bench-") as directory,
        Progress(*columns, console=console, transient=True) as progress,
    ):
        bench = Bench(options, Path(directory), progress)
        if bench.flushes is None:
            console.print(
                "[yellow]this system does not count flushes: measured runs are not checked for their syncs[/]"
            )
        try:
            for part in PARTS:
                if part in options.only:
                    getattr(bench, part)()
        except BenchFailed as failed:
            console.print(f"[bold red]bench failed:[/] {failed}")
            return 1
    if bench.figures:
        print_table(console, bench.figures)
    write_json(
        options.json, {"setting": where, "figures": [one.as_json() for one in bench.figures], "runs": bench.runs}
    )
    write_plot(options.plot, bench.figures, where)
    console.print(f"every run: {options.json}, plot: {options.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
