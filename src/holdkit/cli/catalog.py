"""``holdkit admin catalog``: what applications have stored of calendars, budgets, rates and resources, without their
definitions."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime
from typing import Literal, get_args

import click
from msgspec.structs import asdict

from ..faces._sync.kernel import Kernel
from ..faces.catalog import MAX_DAYS, FaceName
from ..wire.catalog import (
    FacesAnswer,
    ResourceAnswer,
    RoomAnswer,
    StoredWindowAnswer,
    calendar_page,
    resource_page,
    window_page,
)
from .arguments import limit_option
from .documents import NameDocument
from .options import open_kernel, tenant_options, time_of
from .output import OK, Output, clock_time

COUNTS = ("total", "held", "consumed", "available", "until")

after_option = click.option("--after", default="", help="start after this place, which the page before has printed")


@click.group()
def catalog() -> None:
    """Show calendars, budgets, rates, resources and sections of seats, by name. What was never held is not stored: only
    the application knows of it.

    \b
    Example:
      holdkit admin catalog faces
      holdkit admin catalog names calendars
      holdkit admin catalog calendar hotel 2026-07-01 --days 7
    """


@catalog.command()
@tenant_options
def faces(url: str | None, tenant: str, in_json: bool) -> int:
    """List the kinds of data that this tenant has: claims, items, sections, calendars, budgets, rates, resources,
    sagas, accounts.

    \b
    Example:
      holdkit admin catalog faces --json
    """
    with open_kernel(url, tenant) as hk:
        found = (
            FacesAnswer(**asdict(hk.admin.catalog.present()), server_time=time_of(hk))
            if isinstance(hk, Kernel)
            else hk.admin.catalog.present()
        )
    present = {name: there for name, there in asdict(found).items() if name != "server_time"}
    Output(in_json).table([found], ("face", "stored"), [[name, _yes(there)] for name, there in present.items()])
    return OK


def _yes(there: object) -> str:
    return "yes" if there else "no"


@catalog.command()
@click.argument("face", type=click.Choice(get_args(FaceName)))
@after_option
@limit_option
@tenant_options
def names(url: str | None, tenant: str, in_json: bool, face: FaceName, after: str, limit: int) -> int:
    """List the names of calendars, budgets, rates, kinds of resources, or sections of seats.

    \b
    Example:
      holdkit admin catalog names calendars
    """
    with open_kernel(url, tenant) as hk:
        found = hk.admin.catalog.names(face, after=after, limit=limit)
    Output(in_json).table([NameDocument(name) for name in found], (face,), [[name] for name in found])
    return _goes_on(found.reached)


@catalog.command()
@click.argument("name", metavar="CALENDAR")
@click.argument("begin", metavar="DATE")
@click.option("--days", type=click.IntRange(1, MAX_DAYS), default=14, show_default=True, help="how many days from DATE")
@after_option
@click.option("--limit", type=click.IntRange(1, 100), default=50, show_default=True, help="how many rooms at most")
@tenant_options
def calendar(
    url: str | None, tenant: str, in_json: bool, name: str, begin: str, days: int, after: str, limit: int
) -> int:
    """Show the rooms of a calendar from DATE on: the nights, or times of day, that were held.

    \b
    Example:
      holdkit admin catalog calendar hotel 2026-07-01 --days 7
    """
    with open_kernel(url, tenant) as hk:
        if isinstance(hk, Kernel):
            stored = hk.admin.catalog.calendar(name, begin, days, after=after, limit=limit)
            found: Sequence[RoomAnswer] = calendar_page(stored, time_of(hk)).items
            reached = stored.reached
        else:
            read = hk.admin.catalog.calendar(name, begin, days, after=after, limit=limit)
            found, reached = read, read.reached
    rows = [
        [one.room, cell.begins, *_counts(cell.total, cell.held, cell.consumed, cell.available, cell.closes)]
        for one in found
        for cell in one.cells
    ]
    Output(in_json).table(found, ("room", "begins", *COUNTS), rows)
    for one in found:
        if not one.complete:
            click.echo(f"{one.room} has more in these days: use a smaller --days", err=True)
    return _goes_on(reached)


@catalog.command()
@click.argument("face", type=click.Choice(["budgets", "rates"]))
@click.argument("name")
@click.option("--client", help="only windows of this client")
@after_option
@limit_option
@tenant_options
def windows(
    url: str | None, tenant: str, in_json: bool, face: Literal["budgets", "rates"], name: str, client: str | None,
    after: str, limit: int,
) -> int:  # fmt: skip
    """List the windows of a set of budgets, or of a rate, that were used, in order of client. Held are the estimates, consumed the
    actual amounts.

    \b
    Example:
      holdkit admin catalog windows budgets llm --client customer:7
    """
    with open_kernel(url, tenant) as hk:
        if isinstance(hk, Kernel):
            stored = hk.admin.catalog.windows(face, name, client=client, after=after, limit=limit)
            found: Sequence[StoredWindowAnswer] = window_page(stored, time_of(hk)).items
            reached = stored.reached
        else:
            read = hk.admin.catalog.windows(face, name, client=client, after=after, limit=limit)
            found, reached = read, read.reached
    rows = [
        [one.client, one.budget or "-", one.per, *_counts(one.total, one.held, one.consumed, one.available, one.closes)]
        for one in found
    ]  # fmt: skip
    Output(in_json).table(found, ("client", "budget", "per", *COUNTS), rows)
    return _goes_on(reached)


@catalog.command()
@click.argument("kind")
@after_option
@limit_option
@tenant_options
def resources(url: str | None, tenant: str, in_json: bool, kind: str, after: str, limit: int) -> int:
    """List the keys and windows of a kind of resource that were held; the total is the capacity as last answered.

    \b
    Example:
      holdkit admin catalog resources table
    """
    with open_kernel(url, tenant) as hk:
        if isinstance(hk, Kernel):
            stored = hk.admin.catalog.resources(kind, after=after, limit=limit)
            found: Sequence[ResourceAnswer] = resource_page(stored, time_of(hk)).items
            reached = stored.reached
        else:
            read = hk.admin.catalog.resources(kind, after=after, limit=limit)
            found, reached = read, read.reached
    rows = [
        [one.key, one.window, *_counts(one.total, one.held, one.consumed, one.available, one.closes)] for one in found
    ]
    Output(in_json).table(found, ("key", "window", *COUNTS), rows)
    return _goes_on(reached)


def _counts(total: int, held: int, consumed: int, available: int, closes: datetime | None) -> list[str]:
    return [str(total), str(held), str(consumed), str(available), clock_time(closes)]


def _goes_on(reached: str | None) -> int:
    """Print how to continue a longer list."""
    if reached is not None:
        click.echo(f"there is more: continue with --after {shlex.quote(reached)}", err=True)
    return OK
