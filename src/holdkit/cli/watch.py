"""``holdkit watch``: a live view of pools, holds and the journal on a terminal, or JSON documents. Read-only."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ..kernel.pool import Pool
from ..kernel.results import Hold, JournalEntry
from ..kernel.times import is_in_calendar, text_of
from ..wire.holds import hold_answer
from ..wire.pools import pool_answer
from .documents import WatchDocument
from .journal import document_of
from .options import Opened, chosen_url, database_options, is_local, key_option, open_kernel, tenant_option
from .output import OK, Output, clock_time

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table


@click.command()
@click.option("--prefix", default="", help="only pools whose ids begin with this")
@click.option(
    "--every", type=click.FloatRange(0.1, 3600), default=1.0, show_default=True, help="seconds between refreshes"
)
@click.option("--once", is_flag=True, help="print once and exit")
@tenant_option
@key_option
@database_options
def watch(
    target: str | None, url: str | None, tenant: str, prefix: str, every: float, once: bool, in_json: bool
) -> int:  # fmt: skip
    """Show pools, live holds, the last journal entries and rates, live. Press q or Ctrl-C to quit.

    \b
    Example:
      holdkit watch --prefix show:
      holdkit watch --once --json
    """
    with open_kernel(chosen_url(url, target), tenant) as hk:
        watcher = Watcher(hk, prefix, 40, 12, 8)
        watcher.refresh()
        if once or in_json or not sys.stdout.isatty():
            while True:
                Output(in_json).write(watcher.document(), *_plain(watcher))
                if once:
                    return OK
                time.sleep(every)
                watcher.refresh()
        with _keys() as pressed:
            _live(watcher, every, pressed)
    return OK


def _live(watcher: Watcher, every: float, pressed: Callable[[float], str]) -> None:
    from rich.live import Live

    with Live(_drawn(watcher), screen=True, auto_refresh=False) as live:
        while pressed(every).lower() != "q":
            watcher.refresh()
            live.update(_drawn(watcher, live.console.width), refresh=True)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yield a function that waits for a key for some seconds; restore the terminal at the end.

    Ctrl-C is read as a key: raised while the screen is drawn, it would leave it half drawn.
    """
    read_end, write_end = os.pipe()
    watched = [read_end, *([sys.stdin.fileno()] if sys.stdin.isatty() else [])]
    handler = signal.signal(signal.SIGINT, lambda *_: os.write(write_end, b"q"))
    before = termios.tcgetattr(watched[1]) if watched[1:] else None
    try:
        if before is not None:
            tty.setcbreak(watched[1])

        def pressed(seconds: float) -> str:
            ready, _, _ = select.select(watched, [], [], seconds)
            return os.read(ready[0], 1).decode("latin-1") if ready else ""

        yield pressed
    finally:
        if before is not None:
            termios.tcsetattr(watched[1], termios.TCSADRAIN, before)
        signal.signal(signal.SIGINT, handler)
        os.close(read_end)
        os.close(write_end)


def _plain(watcher: Watcher) -> list[str]:
    lines = [f"{pool.id}: {pool.held} held, {pool.consumed} consumed, {pool.available} free of {pool.total}"
             for pool in watcher.pools]  # fmt: skip
    lines += [f"{hold.id} {_left(hold.raw.deadline, watcher.now)}" for hold in watcher.holds]
    return [*lines, _rates(watcher)]


def _drawn(watcher: Watcher, width: int = 80) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    title = Text.assemble(
        ("holdkit ", "bold"), (clock_time(watcher.now, watcher.now) + " UTC  ", "dim"), _rates(watcher)
    )
    title.truncate(width, overflow="ellipsis")
    return Group(title, Text(), _pools(watcher, width), Text(), _holds(watcher, width), Text(), _tail(watcher, width))


def _table(*heads: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold dim")
    for head in heads:
        table.add_column(head, no_wrap=True, overflow="ellipsis")
    return table


def _pools(watcher: Watcher, width: int) -> Table:
    from rich.text import Text

    wide = width >= 70
    table = _table("pool", "", "free", *(("held", "consumed", "total") if wide else ("of",)))
    width_of_bar = max(6, min(40, width // 3))
    for pool in watcher.pools:
        most = max(pool.total, pool.held + pool.consumed, 1)
        consumed, held = width_of_bar * pool.consumed // most, width_of_bar * pool.held // most
        bar = Text.assemble(
            ("█" * consumed, "blue"), ("▒" * held, "yellow"), ("·" * (width_of_bar - consumed - held), "dim")
        )
        numbers = (pool.held, pool.consumed, pool.total) if wide else (pool.total,)
        free = Text(str(pool.available), style="bold red" if not pool.available else "green")
        table.add_row(Text(pool.id), bar, free, *map(str, numbers))
    return table


def _holds(watcher: Watcher, width: int) -> Table:
    from rich.text import Text

    table = _table("hold", "left", "legs", *(("actor",) if width >= 70 else ()))
    for hold in watcher.holds:
        legs = ", ".join(f"{leg.pool} × {leg.held}" for leg in hold.legs)
        more = (Text(hold.actor or ""),) if width >= 70 else ()
        name = hold.id if width >= 100 else f"…{hold.id[-8:]}"
        table.add_row(name, _left(hold.raw.deadline, watcher.now), Text(legs), *more)
    return table


def _tail(watcher: Watcher, width: int) -> Table:
    from rich.text import Text

    table = _table("when", "what", "subject")
    for entry in watcher.tail:
        name = entry.subject if width >= 100 or len(entry.subject) < 24 else f"…{entry.subject[-8:]}"
        table.add_row(clock_time(entry.raw.slot, watcher.now), str(entry.action), Text(name))
    return table


def _left(deadline: int | None, now: int) -> str:
    if deadline is None:
        return "no deadline"
    seconds = max(0, deadline - now) // 1_000_000
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"


def _rates(watcher: Watcher) -> str:
    rates = ", ".join(f"{action} {rate:.1f}/s" for action, rate in watcher.rates.items())
    return rates or "no activity"


PAGES = 10
"""Journal pages to read per refresh; a view that is further behind skips to the end."""
PAGE = 1_000


class Watcher:
    """The state that is shown: one tenant's pools, holds and last entries."""

    def __init__(self, hk: Opened, prefix: str, pools: int, holds: int, tail: int) -> None:
        self._hk, self._prefix = hk, prefix
        self._most_pools, self._most_holds = pools, holds
        self.tail: deque[JournalEntry] = deque(hk.journal.list(after=hk.journal.cursor(back=tail), limit=PAGE), tail)
        self._cursor = hk.journal.cursor()
        self._refreshed = time.monotonic()
        self.pools: list[Pool] = []
        self.holds: list[Hold] = []
        self.rates: dict[str, float] = {}
        self.now = 0

    def refresh(self) -> None:
        """Read the current state."""
        self.pools = self._hk.pools(self._prefix, limit=self._most_pools)
        found = self._hk.holds(state="held", limit=1_000)
        self.now = self._hk._executor.clock()
        self.holds = sorted(found, key=lambda hold: (hold.raw.deadline is None, hold.raw.deadline, hold.id))[
            : self._most_holds
        ]
        seen: Counter[str] = Counter()
        for _ in range(PAGES):
            fresh = self._hk.journal.list(after=self._cursor, limit=PAGE)
            seen.update(str(entry.action) for entry in fresh if not entry.raw.part)
            self.tail.extend(fresh)
            if not fresh:
                break
            self._cursor = fresh[-1].cursor
        else:
            self._cursor = self._hk.journal.cursor()
        refreshed = time.monotonic()
        self.rates = {action: count / max(refreshed - self._refreshed, 1e-3) for action, count in sorted(seen.items())}
        self._refreshed = refreshed

    def document(self) -> WatchDocument:
        """Return the state as a document."""
        named = is_local(self._hk)
        return WatchDocument(
            at=text_of(self.now) if is_in_calendar(self.now) else "",
            url=self._hk.url,
            pools=tuple(pool_answer(pool.raw, with_tenant=named) for pool in self.pools),
            holds=tuple(hold_answer(hold.raw, with_tenant=named) for hold in self.holds),
            entries=tuple(document_of(entry) for entry in self.tail),
            rates=self.rates,
        )
