"""The parts of the bench: each measures one thing, prints what does not fit the table, and adds its figures."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Final

from . import ageing, archiving, dashboard, memory, seats, verifying
from .against import BY_THEMSELVES, alternate
from .comparison import SCENARIOS, Run, play
from .core_speed import core_speed
from .figures import age_figures, callers_figure, core_figure, memory_figure, raw_figure, verify_figures
from .postgres.parts import PostgresParts
from .raw import RawRound, raw_rounds
from .rows import BenchFailed
from .server import fairness
from .server import part as over_http
from .syncs import count_all, strace_missing

PARTS: Final = ("syncs", "callers", "engine", "core", "age", "memory", "seats", "verify", "postgres", "server",
                "fairness", "targets", "latency", "model", "growth", "dashboard", "archive")  # fmt: skip
USUAL: Final = PARTS[: PARTS.index("fairness") + 1]
"""Those that run unless some are named."""


class Bench(PostgresParts):
    """All parts: those on PostgreSQL, and the others."""

    def run(self, part: str) -> None:
        """Run one part; beside another revision, if one is named."""
        if self.other is None or part in BY_THEMSELVES:
            getattr(self, part)()
            return
        bar = self.progress.add_task(part, total=2 * self.rounds)
        options = ["--quick"] if self.quick else []
        options += [f"--past={self.past}"] if self.past else []
        try:
            self.figures += alternate(
                self.other, part, self.rounds, options, self.directory,
                lambda name: self.progress.update(bar, advance=1, description=name),
            )  # fmt: skip
        except BenchFailed as failed:
            self.progress.console.print(f"[yellow]{failed}: not compared[/]")

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

    def archive(self) -> None:
        """The archive of a long journal, beside a caller."""
        entries = self.past or (archiving.QUICK if self.quick else archiving.ENTRIES)
        self.runs["archive"] = []
        for engine in verifying.ENTRIES:
            advance = partial(self.progress.advance, self.progress.add_task(f"archive, {engine}", total=entries + 1))
            with verifying.filled(engine, self.directory, entries, advance) as place:
                if place is None:
                    continue
                seconds = 1.0 if self.quick else archiving.SECONDS
                found = archiving.measure(engine, place, entries, self.directory / f"archive-{engine}", seconds)
            advance(1)
            self.figures += archiving.figures(found)
            self.runs["archive"].append(found)

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

    def dashboard(self) -> None:
        """The dashboard in a browser, on many pools and holds."""
        share = 10 if self.quick else 1
        pools, holds = dashboard.POOLS // share, dashboard.HOLDS // share
        path = self.directory / "dashboard.db"
        bar = self.progress.add_task("pools and holds", total=holds)
        key = dashboard.fill(path, pools, holds, lambda many: self.progress.advance(bar, many))
        bar = self.progress.add_task("dashboard", total=self.rounds)
        seen = dashboard.measure(path, key, pools, holds, self.rounds, lambda: self.progress.advance(bar))
        self.runs["dashboard"] = seen
        self.figures += dashboard.figures(seen)
        path.unlink()

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
