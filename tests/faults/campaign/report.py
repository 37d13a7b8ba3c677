"""The report of a campaign: totals by part, times without service, canaries; as a table, as JSON, as a row for the docs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from tests.faults.campaign.check import KINDS, Verdict

TIMED: Final = frozenset({"killed", "stopped", "network_cut"})
"""The kinds of failover for which times are promised."""
GOALS: Final = {"from the fault, p50": 2.0, "from the fault, max": 10.0, "from the first write, max": 3.0}


class Part(Struct, kw_only=True):
    """The totals of one kind of fault."""

    name: str
    faults: int = 0
    wanted: int = 0
    extra: int = 0
    """Cuts during recovery; waits that were cancelled; commands that passed a guard."""
    done: int = 0
    refused: int = 0
    unknown: int = 0
    lost: int = 0
    doubled: int = 0
    denied: int = 0
    oversold: int = 0
    gone: int = 0
    unsound: int = 0
    seconds: float = 0.0

    @property
    def violations(self) -> int:
        return sum(getattr(self, name) for name in KINDS)

    def add(self, verdict: Verdict, extra: int = 0) -> None:
        """One more fault."""
        self.faults += 1
        self.extra += extra
        for name in ("done", "refused", "unknown"):
            setattr(self, name, getattr(self, name) + getattr(verdict, name))
        for name in KINDS:
            setattr(self, name, getattr(self, name) + len(getattr(verdict, name)))


class Canary(Struct, frozen=True):
    """A store that is deliberately unsafe, and how many answers it lost."""

    name: str
    lost: int


class Report(Struct, kw_only=True):
    """A whole campaign."""

    seed: int
    commit: str
    parts: list[Part] = []
    canaries: list[Canary] = []
    from_fault: dict[str, list[float]] = {}
    from_writable: dict[str, list[float]] = {}
    skipped: list[str] = []
    examples: list[str] = []
    """The first few violations, each with the line that repeats it."""

    def times(self) -> dict[str, float]:
        """What is promised of failovers, and what was seen; empty if none was timed."""
        fault = [each for kind in TIMED for each in self.from_fault.get(kind, ())]
        writable = [each for kind in TIMED for each in self.from_writable.get(kind, ())]
        return dict(zip(GOALS, (median(fault), max(fault), max(writable)), strict=True)) if fault else {}

    def failures(self) -> list[str]:
        """Why this campaign failed: violations, too few faults, canaries that lost nothing, parts without any answer."""
        said = [f"{part.name}: {part.violations} violations" for part in self.parts if part.violations]
        said += [f"{part.name}: {part.faults} of {part.wanted}" for part in self.parts if part.faults < part.wanted]
        said += [f"the canary {each.name} lost nothing" for each in self.canaries if not each.lost]
        said += [f"{part.name}: no caller got an answer" for part in self.parts if part.faults and not part.done]
        return said

    def missed(self) -> list[str]:
        """Goals in time that were not reached."""
        return [
            f"{name}: {seen:.2f} s, not {GOALS[name]:.0f} s"
            for name, seen in self.times().items()
            if seen > GOALS[name]
        ]


def commit() -> str:
    """The commit that is tested."""
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def table(report: Report) -> str:
    """The report as text."""
    head = ("", "faults", "more", "done", "refused", "unknown", *KINDS, "s")
    rows: list[Sequence[str]] = [head]
    for part in report.parts:
        counts = (
            part.faults,
            part.extra,
            part.done,
            part.refused,
            part.unknown,
            *(getattr(part, name) for name in KINDS),
        )
        rows.append((part.name, *(f"{count:,}" for count in counts), f"{part.seconds:.0f}"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    lines += [f"canary {each.name}: lost {each.lost:,}" for each in report.canaries]
    for kind in sorted(report.from_fault):
        fault, writable = report.from_fault[kind], report.from_writable[kind]
        lines.append(
            f"without service, {kind}: from the fault p50 {median(fault):.2f} s, max {max(fault):.2f} s; "
            f"from the first write p50 {median(writable):.2f} s, max {max(writable):.2f} s"
        )
    lines += [f"NOT RUN: {why}" for why in report.skipped]
    lines += [f"GOAL MISSED: {missed}" for missed in report.missed()]
    lines += [f"FAILED: {failure}" for failure in report.failures()]
    return "\n".join([*lines, *report.examples])


def row(report: Report, command: str) -> str:
    """One line of the table in docs/reliability.md."""
    faults = ", ".join(
        f"{part.faults} {part.name}" + (f" (and {part.extra})" if part.extra else "") for part in report.parts
    )
    other = sum(part.denied + part.oversold + part.unsound for part in report.parts)
    sums = [sum(getattr(part, name) for part in report.parts) for name in ("done", "lost", "doubled", "gone")]
    cells = (report.commit, f"`{command}`", faults.replace("_", " "), *(f"{each:,}" for each in (*sums, other)))
    return f"| {' | '.join(cells)} |"
