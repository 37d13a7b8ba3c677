"""The goals, and how measurements are compared with them. A missed goal is printed, never asserted."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import asdict

from .ageing import Age
from .comparison import Run
from .core_speed import CoreSpeed
from .memory import FLAT, Mark
from .raw import RawRound
from .verifying import MOST, Verified

RATE: Final = "holds/s"
LATENCY: Final = "µs"
TOLERATED: Final = 1.03
"""A figure is worse than another revision's only if the whole range of its rounds lies above this; below it lies the machine's noise."""


class Figure(Struct, frozen=True):
    """One row of the table: `ratio` is Holdkit's value divided by the baseline's."""

    group: str
    name: str
    unit: str
    other: float | None
    ours: float
    ratio: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""
    ratios: tuple[float, ...] = ()
    """Of each round by itself: how steady the machine was."""
    against: str = ""
    """The other revision, if the baseline is one."""

    @property
    def reached(self) -> bool | None:
        """Whether the target is reached; None if there is none."""
        if self.ratio is None or (self.at_least is None and self.at_most is None):
            return None
        return (self.at_least is None or self.ratio >= self.at_least) and (
            self.at_most is None or self.ratio <= self.at_most
        )

    @property
    def worse(self) -> bool:
        """Whether this revision cost more than `TOLERATED` times what the other one cost, in every round."""
        if not self.against or not self.ratios:
            return False
        is_rate = self.unit.endswith("/s")
        return min(1 / ratio if is_rate else ratio for ratio in self.ratios) > TOLERATED

    def as_json(self) -> dict[str, Any]:
        """With its verdicts."""
        return {**asdict(self), "reached": self.reached, "worse": self.worse}

    @property
    def target(self) -> str:
        """As the table shows it."""
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least:g} – {self.at_most:g}×"
        if self.at_least is not None:
            return f"≥ {self.at_least:g}×"
        return "" if self.at_most is None else f"≤ {self.at_most:g}×"


RATES: Final = {"32 threads": 2.5, "32 tasks": 4.0, "256 tasks": 6.0}
LATENCIES: Final = {"1 thread": 1.5, "1 task": 2.3}
APPLY_AT_256: Final = 0.6
AGE: Final = 1.25


def compared(
    group: str,
    name: str,
    unit: str,
    other: list[float],
    ours: list[float],
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    note: str = "",
) -> Figure:
    """Medians over the rounds, and the ratio of each round."""
    before, after = median(other), median(ours)
    ratios = tuple(mine / theirs for theirs, mine in zip(other, ours, strict=True))
    return Figure(group, name, unit, before, after, after / before, at_least, at_most, note, ratios)


def callers_figure(runs: list[Run]) -> Figure:
    """One scenario: the rate for many callers, the latency for one."""
    name = runs[0].scenario
    hand = [run for run in runs if run.variant == "by_hand"]
    ours = [run for run in runs if run.variant == "ours"]
    size = median(run.holds / max(1, run.batches) for run in ours)
    note = f"{size:.0f} per batch" if size >= 1.5 else ""
    if name in LATENCIES:
        before, after = ([1e6 * run.p50 for run in variant] for variant in (hand, ours))
        return compared("callers", name, LATENCY, before, after, at_most=LATENCIES[name])
    before, after = ([run.per_second for run in variant] for variant in (hand, ours))
    return compared("callers", name, RATE, before, after, at_least=RATES.get(name), note=note)


def raw_figure(rounds: list[RawRound]) -> Figure:
    """`engine.apply` compared with raw `executemany`, at one batch size."""
    batch = rounds[0].batch
    return compared("engine", f"apply of {batch}, compared with raw", RATE, [one.raw for one in rounds],
                    [one.apply for one in rounds], at_least=APPLY_AT_256 if batch == 256 else None)  # fmt: skip


def core_figure(speed: CoreSpeed) -> Figure:
    """The core alone."""
    return Figure("core", f"decisions, batches of {speed.batch}", "decisions/s", None, speed.decisions)


def age_figures(young: Age, old: Age) -> list[Figure]:
    """The cost of many past holds."""
    past = f"{young.past:,} → {old.past:,} past holds"
    return [
        compared(
            "age", f"{name}, {past}", LATENCY, [1e6 * one for one in before], [1e6 * one for one in after], at_most=AGE
        )
        for name, before, after in (
            ("single caller", young.alone, old.alone),
            ("apply of 256", young.in_batch, old.in_batch),
        )
    ]


def memory_figure(marks: list[Mark]) -> Figure:
    """Resident memory at the end, compared with the first mark."""
    first, last = marks[0], marks[-1]
    name = f"resident after {first.pairs:,} → {last.pairs:,} hold + release"
    return Figure("memory", name, "MiB", first.resident / 2**20, last.resident / 2**20, last.resident / first.resident,
                  at_most=FLAT)  # fmt: skip


def verify_figures(engine: str, entries: int, runs: dict[str, Verified]) -> list[Figure]:
    """Memory above the idle process, compared with its limit, and the time it took."""
    found: list[Figure] = []
    for what, run in runs.items():
        name = f"{what} of {entries:,} entries, {engine}"
        found.append(Figure("verify", f"{name}: memory over idle", "MiB", MOST / 2**20, run.over / 2**20, run.over / MOST,
                            at_most=1.0))  # fmt: skip
        found.append(Figure("verify", name, "s", None, run.seconds))
    return found


def short(figures: Iterable[Figure]) -> list[Figure]:
    """The figures that miss their target."""
    return [figure for figure in figures if figure.reached is False]
