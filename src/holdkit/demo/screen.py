"""The two views of the demo: plain text for logs and CI, and a live view for a terminal. Only the latter imports `rich`."""

from __future__ import annotations

import sys
import time
from collections import deque
from textwrap import wrap
from types import TracebackType
from typing import Self, TextIO

from .statistics import Statistics, Summary


class Plain:
    """Prints a line per event, and the figures once a second."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._started = self._shown = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line of narration."""
        self._print(text)

    def show(self, statistics: Statistics, calls_per_second: float) -> None:
        """Print the figures, at most once a second."""
        if time.monotonic() - self._shown >= 1:
            self._shown = time.monotonic()
            self._print(f"  {bar(statistics)}  {figures(statistics)}, {calls_per_second:.0f} calls/s")

    def _print(self, text: str) -> None:
        print(f"{time.monotonic() - self._started:6.1f} s  {text}", file=self._out, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def bar(statistics: Statistics, width: int = 30) -> str:
    """Return sold, held and free seats as a bar of characters."""
    sold, held = cells(statistics, width)
    return f"[{'#' * sold}{'=' * held}{'.' * (width - sold - held)}]"


def cells(statistics: Statistics, width: int) -> tuple[int, int]:
    """Return how many cells of the bar are sold and held; any number above zero gets at least one."""
    sold = min(width, -(-statistics.sold * width // statistics.seats))
    return sold, min(width - sold, -(-statistics.held * width // statistics.seats))


def figures(statistics: Statistics) -> str:
    """Return the figures as text."""
    return f"sold {statistics.sold}, held {statistics.held}, free {statistics.free}, expired {statistics.actions['hold.expired']}"


class Live:
    """Shows a bar, the figures and the narration, live."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._console = Console(highlight=False)
        self._narration: deque[tuple[float, str]] = deque(maxlen=12)
        self._live = RichLive(console=self._console, refresh_per_second=10, auto_refresh=False)
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line of narration."""
        self._narration.append((time.monotonic() - self._started, text))

    def show(self, statistics: Statistics, calls_per_second: float) -> None:
        """Redraw the view."""
        from rich.console import Group, RenderableType
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        whole = min(self._console.width, 100)
        width = max(20, whole - 4)
        sold, held = cells(statistics, width)
        seats = Text.assemble(
            ("█" * sold, "green"), ("▓" * held, "yellow"), ("░" * (width - sold - held), "bright_black"), "\n",
            ("█ sold ", "green"), f"{statistics.sold:<7}", ("▓ held ", "yellow"), f"{statistics.held:<7}",
            ("░ free ", "bright_black"), f"{statistics.free:<6}", f"of {statistics.seats} seats",
        )  # fmt: skip
        counts = Table.grid(padding=(0, 3), expand=False)
        for row in rows(statistics, calls_per_second):
            counts.add_row(*row)
        narration = Table.grid(padding=(0, 2))
        for at, text in self._latest(whole - 15):
            narration.add_row(Text(f"{at:5.1f} s", style="bright_black"), text)
        parts: dict[str, RenderableType] = {"Tonight's show": seats, "All processes": counts, "What happens": narration}
        self._live.update(
            Group(*(Panel(body, title=title, width=whole) for title, body in parts.items())), refresh=True
        )

    def _latest(self, width: int) -> list[tuple[float, str]]:
        """Return the latest lines of narration that fit into the terminal."""
        lines_left = self._console.height - 13
        kept: list[tuple[float, str]] = []
        for at, text in reversed(self._narration):
            lines_left -= len(wrap(text, width))
            if lines_left < 0 and kept:
                break
            kept.insert(0, (at, text))
        return kept

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()


def rows(statistics: Statistics, calls_per_second: float) -> list[tuple[str, ...]]:
    """Return the rows of figures in the live view."""
    counts, actions = statistics.counts, statistics.actions
    return [
        (f"granted     {actions['hold.held']}", f"refused: no seats   {statistics.refused.get('insufficient_capacity', 0)}",
         f"retried, replayed      {counts['replayed']}"),
        (f"confirmed   {actions['hold.confirmed']}", f"refused: too late   {counts['late_refused']}",
         f"overloaded             {counts['overloaded']}"),
        (f"released    {actions['hold.released']}", f"late, honoured      {counts['late_honoured']}",
         f"calls per second       {calls_per_second:.0f}"),
        (f"expired     {actions['hold.expired']}", f"late, refunded      {counts['late_refunded']}",
         f"journal entries        {sum(actions.values())}"),
    ]  # fmt: skip


def summary_text(summary: Summary) -> str:
    """Return the summary as text."""
    late, killed, race = summary.late, summary.killed, summary.race
    alive = summary.granted - summary.confirmed - summary.released - summary.expired
    ended = f"{summary.confirmed} confirmed, {summary.released} released, {summary.expired} expired, {alive} alive"
    lines = {
        "seats": f"{summary.sold} of {summary.seats} sold; the buyers have receipts for {summary.receipts}",
        "holds": f"{summary.granted} granted: {ended}",
        "refused": ", ".join(f"{count} {reason}" for reason, count in summary.refused.items()) or "none",
        "retries": f"{summary.replayed} operations were sent twice, and each was applied once",
        "late": f"{late.refused} paid late: {late.honoured} sold by consume, {late.refunded} refunded",
        "killed": f"{killed.holds} holds of {killed.units} seats; {killed.came_back} expired at their deadline",
        "last seat": f"{race.rivals} buyers, {race.winners} winner",
        "calls": f"{summary.calls} in {summary.seconds} s, by buyers who mostly wait: this is not a benchmark",
        "commits": f"{summary.commits} with {summary.entries} journal entries; {summary.largest_commit} in the largest",
        "verify": "clean" if not summary.differences else f"{summary.differences} differences",
    }
    text = "\n".join(f"  {name:<12}{value}" for name, value in lines.items())
    verdict = "Nothing was oversold." if summary.ok else "FAILED:\n  " + "\n  ".join(summary.problems)
    return f"{text}\n\n{verdict}"
