"""``holdkit journal`` and ``holdkit history``: the record of every change."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from ..core.codec import is_ticket
from ..core.model import MAX_SLOT
from ..core.validation import hold_id as check_hold_id
from ..errors import InvalidRequest
from ..faces._sync.kernel import Kernel
from ..kernel.arguments import reference
from ..kernel.results import JournalEntry
from ..kernel.times import is_in_calendar, text_of
from ..wire.fields import encode
from ..wire.journal import EntryAnswer, SentEntry, entry_answer
from .options import Opened, open_kernel, tenant_options
from .output import OK

if TYPE_CHECKING:
    from ..client import RemoteKernel

ROUND: Final = 20
"""Requests of one search: a page has fewer entries than were asked for where some of them are not shown, such as notes of servers
about themselves."""


@click.group()
def journal() -> None:
    """The ordered record of every change.

    \b
    Example:
      holdkit journal tail --follow
    """


@journal.command("list")
@click.option("--after", metavar="CURSOR", help="start after this entry: its `cursor` in the JSON output")
@click.option("--limit", type=click.IntRange(1, 10_000), default=1_000, show_default=True)
@click.option("--include-reserved", is_flag=True, help="with the changes of API keys, tenants and webhooks")
@tenant_options
def list_entries(
    url: str | None, tenant: str, in_json: bool, after: str | None, limit: int, include_reserved: bool
) -> int:
    """List entries from the beginning, or after a cursor.

    \b
    Example:
      holdkit journal list --limit 100 --json
    """
    with open_kernel(url, tenant) as hk:
        found = hk.journal.list(after=after, limit=limit, include_reserved=include_reserved)
    return _print_some(found, limit, in_json)


@journal.command()
@click.option("--action", help="only entries of this action, such as hold.confirmed")
@click.option("--subject", help="only entries about this hold, pool or record (kind/id)")
@click.option("--actor", help="only entries of this actor")
@click.option("--correlation-id", help="only entries with this correlation id")
@click.option("--before", metavar="CURSOR", help="continue before this cursor, which the last search printed")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@click.option("--include-reserved", is_flag=True, help="with the changes of API keys, tenants and webhooks")
@tenant_options
def search(url: str | None, tenant: str, in_json: bool, before: str | None, limit: int, **filters: Any) -> int:
    """Search the journal, newest entries first. One call searches a part of it, and says how to continue.

    \b
    Example:
      holdkit journal search --actor user:7 --action hold.released
    """
    found: list[JournalEntry] = []
    older: str | None = before
    with open_kernel(url, tenant) as hk:
        for _ in range(ROUND):
            page = hk.journal.search(before=older, limit=limit - len(found), **filters)
            found += page
            older = page.next
            if older is None or len(found) == limit:
                break
    _print(found, in_json)
    if older is not None:
        click.echo(f"older entries were not searched: continue with --before {older}", err=True)
    return OK


@journal.command()
@click.option("-n", "--lines", type=click.IntRange(0, 10_000), default=20, show_default=True, help="how many entries")
@click.option("-f", "--follow", is_flag=True, help="continue with new entries until Ctrl-C")
@tenant_options
def tail(url: str | None, tenant: str, in_json: bool, lines: int, follow: bool) -> int:
    """Show the last entries, and with --follow new ones as they are committed.

    \b
    Example:
      holdkit journal tail -n 5 --follow --json
    """
    with open_kernel(url, tenant) as hk:
        cursor, last = hk.journal.cursor(), last_entries(hk, lines)
        _print(last, in_json)
        if follow:
            seen = {entry.position for entry in last}
            for entry in hk.journal.follow(after=cursor):
                if entry.position not in seen:  # it was written between the two reads
                    _print([entry], in_json)
    return OK


def last_entries(hk: Opened, count: int) -> list[JournalEntry]:
    """Return the last `count` entries of this tenant, in order."""
    return _entries_back(hk, count) if isinstance(hk, Kernel) else _entries_before(hk, count)


def _entries_back(hk: Kernel, count: int) -> list[JournalEntry]:
    """Read further back until there are enough entries, or the beginning is reached."""
    back = count
    while count:
        start = hk.journal.cursor(back=back)
        found = deque(hk.journal.follow(after=start, wait=False), count)
        if len(found) == count or start == hk.journal.cursor(back=MAX_SLOT):
            return list(found)
        back *= 8
    return []


def _entries_before(hk: RemoteKernel, count: int) -> list[JournalEntry]:
    """Page from the end: only the server can read its cursors."""
    found: list[JournalEntry] = []
    before: str | None = None
    while len(found) < count:
        page = hk.journal.search(before=before, limit=min(1_000, count - len(found)))
        found += page
        before = page.next
        if before is None:
            break
    return found[::-1]


@click.command()
@click.argument("subject")
@click.option("--after", metavar="CURSOR", help="start after this entry: its `cursor` in the JSON output")
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=1_000, show_default=True, help="maximum number of entries"
)
@click.option(
    "--archive", type=click.Path(file_okay=False), metavar="DIR", help="also read the entries that were archived to DIR"
)
@tenant_options
def history(
    url: str | None, tenant: str, in_json: bool, subject: str, after: str | None, limit: int, archive: str | None
) -> int:
    """Show the history of a hold (by id or ticket), or of a pool and the holds on it.

    \b
    Example:
      holdkit history 0199c0ffee… --json
    """
    with open_kernel(url, tenant) as hk:
        read = hk.history if _is_hold(subject) else hk.journal.history
        found = read(subject, after=after, limit=limit, archive=archive)
    return _print_some(found, limit, in_json)


def _is_hold(subject: str) -> bool:
    """Return whether a text is a ticket or the id of a hold; any other text is the id of a pool."""
    try:
        check_hold_id(reference(subject, None)[0])
    except InvalidRequest:
        return is_ticket(subject)
    return True


def document_of(entry: JournalEntry) -> EntryAnswer:
    """Return an entry as a document. One of a database names its tenant."""
    if isinstance(entry.raw, SentEntry):
        return entry.raw.document
    return entry_answer(entry, str, entry.cursor, with_tenant=True)


def _print(entries: Iterable[JournalEntry], in_json: bool) -> None:
    for entry in entries:
        if in_json:
            click.echo(encode(document_of(entry)))
        else:
            click.echo(entry_line(entry))


def _print_some(entries: list[JournalEntry], limit: int, in_json: bool) -> int:
    """Print entries, and how to continue if they reach `limit`."""
    _print(entries, in_json)
    if len(entries) == limit:
        click.echo(f"more entries may follow: continue with --after {entries[-1].cursor}", err=True)
    return OK


def entry_line(entry: JournalEntry) -> str:
    """Return an entry as one line of text."""
    slot = entry.raw.slot
    parts = [
        f"{entry.position.removeprefix('0.'):>8}", text_of(slot) if is_in_calendar(slot) else str(slot),
        f"{entry.action:<22}", entry.subject,
    ]  # fmt: skip
    pools = [effect.pool for effect in entry.pools[:3]]
    parts += [f"{pool.id}: held {pool.held}, consumed {pool.consumed} of {pool.total}" for pool in pools]
    refused = entry.refused
    if refused is not None:
        asked = "".join(f" {leg.quantity} of {leg.pool}" for leg in refused.legs[:3])
        parts.append(f"{refused.command}{asked}: {refused.reason}")
    parts += [f"{name}={value}" for name in ("tenant", "actor", "op", "reason") if (value := getattr(entry, name))]
    if entry.client_id and entry.actor != f"api_client:{entry.client_id}":
        parts.append(f"key={entry.client_id}")  # shown besides the actor, who may be another
    if entry.forced:
        parts.append("forced")
    if entry.archived_to is not None:
        parts.append(f"archived to {entry.archived_to}")
    return "  ".join(parts)
