"""The parts on a PostgreSQL server of their own."""

from __future__ import annotations

from pathlib import Path

from holdkit.testing.postgres.binaries import NoPostgres, find
from tools.ensure_programs import install

from .. import targets
from ..bench_run import BenchRun
from ..by_hand_redis import PROGRAM as REDIS
from ..plots import plot_latency, plot_model, plot_rates, plot_targets
from ..revision import Revision, extract
from ..rows import BenchFailed
from . import growth, latency, part, scenarios, services, table


class PostgresParts(BenchRun):
    """Each says so and does nothing where PostgreSQL's programs are missing."""

    def postgres(self) -> None:
        """Compare with the hand-written variants, Redis and the server's limit; or, if one is named, with another revision alone."""
        if not self._has_postgres():
            return
        if self.against is None:
            self._install_redis()
        callers = scenarios.QUICK_CALLERS if self.quick else scenarios.CALLERS
        length = scenarios.QUICK_LENGTH if self.quick else scenarios.LENGTH
        wanted = scenarios.scenarios(callers, scenarios.WIDE)
        bar = self.progress.add_task("PostgreSQL", total=None)
        measured = part.measure(
            self.directory, wanted, self.rounds, length,
            lambda name: self.progress.update(bar, advance=1, description=f"PostgreSQL, {name}"), self.sync,
            self.connections, self.other,
        )  # fmt: skip
        self.figures += table.figures(measured)
        self.runs["postgres"] = measured
        plot_rates(self._plot("postgres"), measured)
        table.print_measured(self.progress.console, measured)

    def targets(self) -> None:
        """Every target of the project's speed, with its verdict."""
        if not self._has_postgres():
            return
        bar = self.progress.add_task("targets", total=None)
        length = scenarios.QUICK_LENGTH if self.quick else targets.LENGTH
        measured = targets.measure(
            self.directory, self.rounds, length,
            lambda name: self.progress.update(bar, advance=1, description=f"targets, {name}"), self._before(),
        )  # fmt: skip
        self.figures += targets.figures(measured)
        self.runs["targets"] = measured
        plot_targets(self._plot("targets"), self.figures)

    def latency(self) -> None:
        """Latency at given rates of arrival, up to saturation."""
        if not self._has_postgres():
            return
        self._install_redis()
        bar = self.progress.add_task("latency", total=None)
        measured = latency.measure(
            self.directory, self.rounds, latency.QUICK_LENGTH if self.quick else latency.LENGTH,
            lambda name: self.progress.update(bar, advance=1, description=f"latency, {name}"), self.sync, self.other,
        )  # fmt: skip
        self.figures += latency.figures(measured)
        self.runs["latency"] = measured
        plot_latency(self._plot("latency"), measured)
        latency.print_latencies(self.progress.console, measured)

    def model(self) -> None:
        """Service times, the rates that a model derives from them, and the measured ones."""
        if not self._has_postgres():
            return
        bar = self.progress.add_task("model", total=None)
        length = scenarios.QUICK_LENGTH if self.quick else scenarios.LENGTH
        modelled = services.measure(
            self.directory, self.rounds, length,
            lambda name: self.progress.update(bar, advance=1, description=f"model, {name}"), self.sync,
        )  # fmt: skip
        self.figures += services.figures(modelled)
        self.runs["model"] = modelled
        plot_model(self._plot("model"), modelled.predictions)
        services.print_service(self.progress.console, modelled)

    def growth(self) -> None:
        """Every kind of call after very many past holds, compared with few."""
        if not self._has_postgres():
            return
        past = self.past or (growth.QUICK if self.quick else growth.USUAL)
        bar = self.progress.add_task("growth", total=growth.FEW + past)
        grown = growth.grow(
            self.directory, past, self.rounds,
            lambda name, many: self.progress.update(bar, advance=many, description=f"growth, {name}"),
        )  # fmt: skip
        self.figures += growth.figures(grown)
        self.runs["growth"] = grown

    def _before(self) -> Revision | None:
        """The revision that targets are compared with: the named one, or the one from before the last round of work."""
        if self.other is not None:
            return self.other
        try:
            return extract(targets.BEFORE, self.directory / "before")
        except BenchFailed as missing:
            self.progress.console.print(f"[yellow]{missing}: nothing is compared with it[/]")
            return None

    def _plot(self, part: str) -> Path:
        """Where the plot of one part goes: beside that of the others."""
        return self.plot.with_stem(f"{self.plot.stem}-{part}")

    def _install_redis(self) -> None:
        if install([REDIS]):
            self.progress.console.print(f"[yellow]{REDIS} is not installed: Redis is not compared[/]")

    def _has_postgres(self) -> bool:
        """Whether its programs are there; if so, make them able to enter the directory, as they do not run as root."""
        try:
            find()
        except NoPostgres as missing:
            self.progress.console.print(f"[yellow]{missing}[/]")
            return False
        self.directory.chmod(0o711)
        return True
