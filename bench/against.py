"""Any part beside another revision: the whole part runs in a child process with each revision's sources in turn.

Each revision is measured by its own bench, because code that is written for the names of one revision may not run with another.
A figure is compared if both benches have it under the same name; a part that one of them does not have is reported, and nothing of it
is compared. Parts that alternate by themselves are not run this way.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from .figures import Figure, compared
from .revision import THIS, Revision
from .rows import BenchFailed

BY_THEMSELVES: Final = frozenset({"postgres", "server", "targets", "latency", "model"})
"""Parts that run both revisions side by side, scenario by scenario."""
MOST: Final = 3_600.0
"""Seconds for one part of one revision."""


class Told(Struct):
    """What a child says about one figure."""

    group: str
    name: str
    unit: str
    ours: float


class Document(Struct):
    """What a child writes."""

    figures: list[Told]


def alternate(
    other: Revision, part: str, rounds: int, options: Iterable[str], directory: Path, step: Callable[[str], None]
) -> list[Figure]:
    """The figures of one part, this revision's compared with the other's; the order changes with every round."""
    found: dict[str, list[list[Told]]] = {other.name: [], THIS.name: []}
    for turn in range(rounds):
        for revision in (other, THIS) if turn % 2 == 0 else (THIS, other):
            step(f"{part}, {revision.name}")
            found[revision.name].append(once(revision, part, options, directory))
    return side_by_side(other.name, found[other.name], found[THIS.name])


def once(revision: Revision, part: str, options: Iterable[str], directory: Path) -> list[Told]:
    """One round of one part, in a process of its own."""
    directory = directory.resolve()  # the child runs in the directory of its revision
    command = [revision.python, "-m", "bench", "--only", part, "--rounds", "1", "--dir", str(directory)]
    written = directory / "child.json"
    command += ["--json", str(written), "--plot", str(directory / "child.png"), *options]
    done = subprocess.run(
        command, env=revision.env(), cwd=revision.root, capture_output=True, text=True, check=False, timeout=MOST
    )
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise BenchFailed(f"{part} does not run with {revision.name}: {said[-1] if said else done.returncode}")
    return msgspec.json.decode(written.read_bytes(), type=Document).figures


def side_by_side(name: str, before: list[list[Told]], after: list[list[Told]]) -> list[Figure]:
    """Each figure that both revisions have in every round."""
    found: list[Figure] = []
    for told in after[0]:
        sides: list[Any] = [
            [values.get((told.group, told.name)) for values in map(named, side)] for side in (before, after)
        ]
        if any(value is None or value == 0 for side in sides for value in side):
            continue
        made = compared(told.group, f"{told.name}, beside {name}", told.unit, *sides)
        # Both sides of a round ran under about the same load; a ratio of medians compares rounds of different load.
        found.append(structs.replace(made, ratio=median(made.ratios), against=name))
    return found


def named(figures: list[Told]) -> dict[tuple[str, str], float]:
    """Holdkit's values by name."""
    return {(one.group, one.name): one.ours for one in figures}
