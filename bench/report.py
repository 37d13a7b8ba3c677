"""The output: a table with ratios, a JSON file with every run, a plot."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

from .disk import SyncTime
from .figures import LATENCY, TOLERATED, Figure, short
from .revision import this_commit

BUSY = 0.25
"""Load per processor above which figures are not to be trusted."""


class Setting(Struct, frozen=True):
    """The machine and disk of the measurement."""

    python: str
    sqlite: str
    system: str
    processors: int
    file_system: str
    sync: SyncTime
    load: float | None
    """Programs that wanted to run in the last minute, before the bench began."""
    revision: str | None
    """Of the project, so that a figure can be told from later ones."""


class Panel(Struct, frozen=True):
    """One part of the plot."""

    title: str
    unit: str
    other: str
    figures: list[Figure]


def setting(file_system: str, sync: SyncTime) -> Setting:
    """This interpreter, this disk."""
    return Setting(
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
        system=f"{platform.system()} {platform.machine()}",
        processors=os.cpu_count() or 1,
        file_system=file_system,
        sync=sync,
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        revision=this_commit(),
    )


def print_setting(console: Console, where: Setting) -> None:
    """One line each for the machine and its disk."""
    revision = "" if where.revision is None else f"revision {where.revision}, "
    console.print(
        f"{revision}Python {where.python}, SQLite {where.sqlite}, {where.system}, {where.processors} processors"
    )
    if where.load is not None and where.load > BUSY * where.processors:
        console.print(
            f"[yellow]other programs are running (load {where.load:.1f}): measure again when the machine is quiet[/]"
        )
    console.print(
        f"{where.file_system}: a synced 4 KiB write takes {where.sync.median * 1e6:.0f} µs"
        f" (90 % within {where.sync.p90 * 1e6:.0f} µs)"
    )


def print_table(console: Console, figures: list[Figure]) -> None:
    """Every figure, and which miss their goal."""
    table = Table(title="baseline (by hand, raw, before) and Holdkit: medians")
    for heading in ("", "other", "ours", "unit", "ratio", "rounds", "target", ""):
        table.add_column(heading, justify="left" if heading in ("", "unit") else "right")
    group = figures[0].group if figures else ""
    for figure in figures:
        if figure.group != group:
            table.add_section()
            group = figure.group
        mark = {True: "[green]reached[/]", False: "[red]short[/]", None: ""}[figure.reached]
        table.add_row(
            figure.name,
            "" if figure.other is None else f"{figure.other:,.0f}",
            f"{figure.ours:,.0f}",
            figure.unit,
            "" if figure.ratio is None else f"{figure.ratio:.2f}×",
            f"{min(figure.ratios):.2f} – {max(figure.ratios):.2f}" if figure.ratios else "",
            figure.target,
            " ".join(part for part in (mark, figure.note) if part),
        )
    console.print(table)
    if worse := [figure for figure in figures if figure.worse]:
        console.print(f"[bold red]Worse, by more than {TOLERATED:g}× in every round:[/] " + "; ".join(
            f"{figure.name} {min(figure.ratios):.2f} – {max(figure.ratios):.2f}×" for figure in worse
        ))  # fmt: skip
    elif any(figure.against for figure in figures):
        console.print(f"No figure is worse than the other revision's by more than {TOLERATED:g}× in every round.")
    missed = short(figures)
    if missed:
        console.print("[bold]Short of their target:[/] " + "; ".join(
            f"{figure.name} {figure.ratio:.2f}× ({figure.target})" for figure in missed
        ))  # fmt: skip


def write_json(path: Path, document: dict[str, Any]) -> None:
    """Everything that was measured, for comparison with other runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")


def write_plot(path: Path, figures: list[Figure], where: Setting) -> None:
    """Bars of hand-written and Holdkit: a single caller's latency, holds per second of many, the engine and raw rows."""
    callers = [figure for figure in figures if figure.group == "callers"]
    panels = [
        Panel("a single caller", "µs per hold (less is better)", "by hand",
              [figure for figure in callers if figure.unit == LATENCY]),
        Panel("threads", "holds per second", "by hand", [figure for figure in callers if figure.name.endswith("threads")]),
        Panel("tasks", "holds per second", "by hand", [figure for figure in callers if figure.name.endswith("tasks")]),
        Panel("engine.apply", "holds per second", "the same rows, raw",
              [figure for figure in figures if figure.group == "engine"]),
    ]  # fmt: skip
    panels = [panel for panel in panels if panel.figures]
    if not panels:
        return
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    drawing, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 3.8), squeeze=False)
    for axis, panel in zip(axes[0], panels, strict=True):
        places = range(len(panel.figures))
        other, ours = [figure.other or 0 for figure in panel.figures], [figure.ours for figure in panel.figures]
        axis.bar([place - 0.2 for place in places], other, 0.4, label=panel.other, color="#9aa5b1")
        bars = axis.bar([place + 0.2 for place in places], ours, 0.4, label="Holdkit", color="#2f6fde")
        axis.bar_label(bars, [f"{figure.ratio:.2f}×" for figure in panel.figures], fontsize=9, padding=2)
        axis.set_xticks(list(places), [figure.name.split(",")[0] for figure in panel.figures])
        axis.set_ylim(0, 1.3 * max(other + ours))
        axis.set_title(panel.title, fontsize=11)
        axis.set_ylabel(panel.unit, fontsize=9)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=9, loc="upper left")
    drawing.suptitle(
        f"SQLite {where.sqlite} on {where.file_system}, {where.sync.median * 1e6:.0f} µs per sync, "
        f"Python {where.python}, {where.processors} processors", fontsize=9, color="#555555"
    )  # fmt: skip
    drawing.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=130)
    plt.close(drawing)
