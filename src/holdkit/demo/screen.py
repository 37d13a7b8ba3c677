"""Two ways to watch: lines of text for logs and CI, and a live view for a terminal. `rich` is imported only for that."""

from __future__ import annotations

import sys
import time
from collections import deque
from textwrap import wrap
from types import TracebackType
from typing import Any, Self, TextIO

from .tally import Summary, Tally


class Plain:
    """A line per event, and a line of figures per second."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._started = self._shown = time.monotonic()

    def say(self, text: str) -> None:
        """Narrate."""
        self._print(text)

    def show(self, tally: Tally, calls_per_second: float) -> None:
        """The figures, once a second."""
        if time.monotonic() - self._shown >= 1:
            self._shown = time.monotonic()
            self._print(f"  {bar(tally)}  {figures(tally)}, {calls_per_second:.0f} calls/s")

    def _print(self, text: str) -> None:
        print(f"{time.monotonic() - self._started:6.1f} s  {text}", file=self._out, flush=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def bar(tally: Tally, width: int = 30) -> str:
    """Sold, held and free as one row of characters."""
    sold, held = cells(tally, width)
    return f"[{'#' * sold}{'=' * held}{'.' * (width - sold - held)}]"


def cells(tally: Tally, width: int) -> tuple[int, int]:
    """How many cells are sold and held; what there is at all gets at least one."""
    sold = min(width, -(-tally.sold * width // tally.seats))
    return sold, min(width - sold, -(-tally.held * width // tally.seats))


def figures(tally: Tally) -> str:
    """The counters in words."""
    return f"sold {tally.sold}, held {tally.held}, free {tally.free}, expired {tally.actions['hold.expired']}"


class Live:
    """Bars that move, counters, and the story beside them."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._console = Console(highlight=False)
        self._story: deque[tuple[float, str]] = deque(maxlen=12)
        self._live = RichLive(console=self._console, refresh_per_second=10, auto_refresh=False)
        self._started = time.monotonic()
        self._picture: Any = None

    def say(self, text: str) -> None:
        """Narrate."""
        self._story.append((time.monotonic() - self._started, text))

    def show(self, tally: Tally, calls_per_second: float) -> None:
        """Draw everything anew."""
        from rich.console import Group, RenderableType
        from rich.panel import Panel
        from rich.table import Table
        from rich.text import Text

        whole = min(self._console.width, 100)
        width = max(20, whole - 4)
        sold, held = cells(tally, width)
        seats = Text.assemble(
            ("█" * sold, "green"), ("▓" * held, "yellow"), ("░" * (width - sold - held), "bright_black"), "\n",
            ("█ sold ", "green"), f"{tally.sold:<7}", ("▓ held ", "yellow"), f"{tally.held:<7}",
            ("░ free ", "bright_black"), f"{tally.free:<6}", f"of {tally.seats} seats",
        )  # fmt: skip
        counts = Table.grid(padding=(0, 3), expand=False)
        for row in rows(tally, calls_per_second):
            counts.add_row(*row)
        story = Table.grid(padding=(0, 2))
        for at, text in self._latest(whole - 15):
            story.add_row(Text(f"{at:5.1f} s", style="bright_black"), text)
        parts: dict[str, RenderableType] = {"Tonight's show": seats, "All processes": counts, "What happens": story}
        self._live.update(
            Group(*(Panel(body, title=title, width=whole) for title, body in parts.items())), refresh=True
        )

    def _latest(self, width: int) -> list[tuple[float, str]]:
        """The newest of the story, as much of it as the terminal has lines for."""
        room = self._console.height - 13
        kept: list[tuple[float, str]] = []
        for at, text in reversed(self._story):
            room -= len(wrap(text, width))
            if room < 0 and kept:
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


def rows(tally: Tally, calls_per_second: float) -> list[tuple[str, ...]]:
    """The counters of the live view, by column."""
    counts, actions = tally.counts, tally.actions
    return [
        (f"granted     {actions['hold.held']}", f"refused: no room    {tally.refused.get('insufficient_capacity', 0)}",
         f"asked again, replayed  {counts['replayed']}"),
        (f"confirmed   {actions['hold.confirmed']}", f"refused: too late   {counts['late_refused']}",
         f"turned away            {counts['turned_away']}"),
        (f"released    {actions['hold.released']}", f"late, honoured      {counts['late_honoured']}",
         f"calls per second       {calls_per_second:.0f}"),
        (f"expired     {actions['hold.expired']}", f"late, money back    {counts['late_refunded']}",
         f"journal entries        {sum(actions.values())}"),
    ]  # fmt: skip


def told(summary: Summary) -> str:
    """The summary for people."""
    late, killed, race = summary.late, summary.killed, summary.race
    alive = summary.granted - summary.confirmed - summary.released - summary.expired
    ended = f"{summary.confirmed} confirmed, {summary.released} released, {summary.expired} expired, {alive} alive"
    lines = {
        "seats": f"{summary.sold} of {summary.seats} sold; the buyers' receipts say {summary.receipts}",
        "holds": f"{summary.granted} granted: {ended}",
        "refused": ", ".join(f"{count} {reason}" for reason, count in summary.refused.items()) or "none",
        "retries": f"{summary.replayed} operations were asked twice, each answered from its record",
        "late money": f"{late.refused} came late: {late.honoured} honoured by consume, {late.refunded} given back",
        "killed": f"{killed.holds} holds of {killed.units} seats; {killed.came_back} came back by their deadline",
        "last seat": f"{race.rivals} rivals, {race.winners} winner",
        "calls": f"{summary.calls} in {summary.seconds} s, by buyers who mostly think: this is no benchmark",
        "commits": f"{summary.commits} with {summary.entries} journal entries; {summary.largest_commit} in the largest",
        "verify": "clean" if not summary.differences else f"{summary.differences} differences",
    }
    text = "\n".join(f"  {name:<12}{value}" for name, value in lines.items())
    verdict = "Nothing was oversold." if summary.ok else "FAILED:\n  " + "\n  ".join(summary.problems)
    return f"{text}\n\n{verdict}"
