"""The output of commands: tables and text for people, JSON for programs, exit codes for scripts, progress bars on stderr.

Results go to stdout, everything else to stderr. A token is printed only in the answer to the caller that placed the
hold.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import wraps
from typing import Any, Final, TypeVar, cast

import click
import msgspec

from ..core.model import Slot
from ..errors import CursorLost, HoldkitError, InvalidRequest, OutcomeUnknown, Overloaded, Refused
from ..kernel.times import datetime_of, is_in_calendar, moment
from ..wire.fields import encode
from ..wire.problems import facts
from .documents import ErrorDocument

F = TypeVar("F", bound=Callable[..., Any])

OK: Final = 0
REFUSED: Final = 1
USAGE: Final = 2
UNKNOWN: Final = 3
OVERLOADED: Final = 4
FAILED: Final = 5
FOUND: Final = 6
LOST: Final = 7
INTERRUPTED: Final = 130

as_json: Callable[[Any], Any] = click.option("--json", "in_json", is_flag=True, help="print JSON")


class Output:
    """Prints results, as text or as JSON."""

    def __init__(self, in_json: bool) -> None:
        self.in_json = in_json

    def write(self, document: msgspec.Struct, *lines: str) -> None:
        """Print one JSON document on one line, or these lines."""
        if self.in_json:
            click.echo(encode(document))
        else:
            for line in lines:
                click.echo(line)

    def table(self, documents: Sequence[msgspec.Struct], heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print JSON lines, or a table: styled on a terminal, in plain columns elsewhere."""
        if self.in_json:
            for document in documents:
                click.echo(encode(document))
            return
        cells = [list(row) for row in rows]
        if sys.stdout.isatty():
            _styled_table(heads, cells)
            return
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        for row in (heads, *cells):
            click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _styled_table(heads: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for index, head in enumerate(heads):
        numbers = bool(cells) and all(row[index].lstrip("-").isdigit() for row in cells)
        table.add_column(head, justify="right" if numbers else "left", overflow="fold")
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))  # not as markup: ids and reasons are untrusted text
    Console().print(table)


def exit_code(error: HoldkitError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, Refused):
        return REFUSED
    if isinstance(error, InvalidRequest):
        return USAGE
    if isinstance(error, OutcomeUnknown):
        return UNKNOWN
    return OVERLOADED if isinstance(error, Overloaded) else FAILED


def error_document(error: HoldkitError, message: str | None = None) -> ErrorDocument:
    """Return an error as a JSON document, with its own message or another."""
    kinds = {REFUSED: "refused", USAGE: "invalid", UNKNOWN: "unknown", OVERLOADED: "overloaded", FAILED: "failed"}
    code = exit_code(error)
    return ErrorDocument(
        error=kinds[code],
        message=str(error) if message is None else message,
        effect=error.effect,
        exit_code=code,
        reason=error.reason if isinstance(error, Refused) else None,
        transient=error.transient if isinstance(error, Refused) else None,
        details=msgspec.to_builtins(facts(error), enc_hook=str) if isinstance(error, Refused) else {},
        field=error.field if isinstance(error, InvalidRequest) else None,
        code=_code(error),
        retry_after=error.retry_after if isinstance(error, Overloaded) else None,
    )


def _code(error: HoldkitError) -> str | None:
    if isinstance(error, InvalidRequest):
        return error.code
    if isinstance(error, Refused):
        return error.reason
    if isinstance(error, CursorLost):
        return "cursor_lost"
    return getattr(error, "reason", None)  # why a server did not admit the API key


def report_error(document: ErrorDocument, in_json: bool) -> int:
    """Print the error on stderr and return its exit code."""
    click.echo(msgspec.json.encode(document) if in_json else document.message, err=True)
    return document.exit_code


class Interrupted(Exception):
    """Ctrl-C, with a word about what is done and what is not."""

    def __init__(self, word: str, effect: str) -> None:
        super().__init__(f"holdkit: interrupted: {word}")
        self.effect = effect


def on_interrupt(word: Callable[[dict[str, Any]], tuple[str, str]]) -> Callable[[F], F]:
    """Let a command say what is done when Ctrl-C stops it: `word` gets its arguments, and returns the words and the effect."""

    def decorated(function: F) -> F:
        @wraps(function)
        def stoppable(*args: Any, **given: Any) -> Any:
            try:
                return function(*args, **given)
            except KeyboardInterrupt:
                raise Interrupted(*word(given)) from None

        return cast(F, stoppable)

    return decorated


_PROGRESS = "holdkit.progress"
"""The key of the last progress in the command's context."""


def progress_made() -> tuple[int, int]:
    """Return how far the command has come: the work done, and the total; 0 if it has not told yet."""
    made: tuple[int, int] = click.get_current_context().meta.get(_PROGRESS, (0, 0))
    return made


def at_end() -> bool:
    """Return whether the command has told that all of its work is done: what it does then, it may have done."""
    done, total = progress_made()
    return done >= total > 0


REFRESH = 0.1
"""Seconds between two updates of a progress bar."""


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that takes the work done and the total. It shows a bar on a terminal, and nothing elsewhere."""
    meta = click.get_current_context().meta
    if not sys.stderr.isatty():

        def note(done: int, total: int) -> None:
            meta[_PROGRESS] = done, total
            tell(done, total)

        yield note
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=None)
        updated = 0.0

        def update(done: int, total: int) -> None:
            nonlocal updated
            meta[_PROGRESS] = done, total
            if done == total or time.monotonic() - updated > REFRESH:
                updated = time.monotonic()
                progress.update(task, completed=done, total=total)

        yield update


def tell(_done: int, _total: int) -> None:
    """Do nothing: there is no terminal to show progress on."""


def clock_time(when: Slot | datetime | None, now: Slot | None = None) -> str:
    """Return a time as readable text, without the date if it is on the same day as `now`, the engine's time."""
    slot: Slot | None = moment(when)
    if slot is None or not is_in_calendar(slot):
        return "-" if slot is None else str(slot)
    at, today = datetime_of(slot), datetime_of(now)
    return at.strftime("%Y-%m-%d %H:%M:%S" if today is None or today.date() != at.date() else "%H:%M:%S")
