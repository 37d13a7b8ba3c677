"""What commands about holds and pools share: their options and arguments, how these are read, and how a hold or a pool is printed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import msgspec

from ..core.commands import Amounts
from ..core.model import State
from ..core.validation import invalid
from ..errors import InvalidRequest
from ..kernel.arguments import What, present, span
from ..kernel.pool import Pool
from ..kernel.results import Hold
from ..wire.holds import HoldNow, hold_now
from ..wire.pools import pool_now
from .options import Opened, is_local, time_of
from .output import OK, Output, clock_time

POOL_HEADS = ("pool", "total", "held", "consumed", "available", "")
HEADS = ("hold", "state", "legs", "deadline", "fence", "actor", "entity")

leg_option: Callable[[Any], Any] = click.option(
    "--leg", "legs", type=(str, int), multiple=True, metavar="POOL UNITS", help="a pool and how many units; repeatable"
)
ticket_argument: Callable[[Any], Any] = click.argument("hold", metavar="TICKET")
token_option: Callable[[Any], Any] = click.option("--token", help="the token, if only the id is given")
force_option: Callable[[Any], Any] = click.option(
    "--force", is_flag=True, help="act without the token; needs --reason, and is recorded as forced"
)

account_option: Callable[[Any], Any] = click.option(
    "--account", help="for whom, such as customer:7: counted against the pools' limits per account"
)
pass_limits_option: Callable[[Any], Any] = click.option(
    "--force", is_flag=True, help="pass limits per account; needs --reason, and is recorded as forced"
)
entity_option: Callable[[Any], Any] = click.option("--entity", help="what the hold is for, such as order:9")
metadata_option: Callable[[Any], Any] = click.option("--metadata", help="your own data, a JSON object")
limit_option: Callable[[Any], Any] = click.option(
    "--limit", type=click.IntRange(1, 1_000), default=100, show_default=True, help="how many at most"
)


def say_next(next: str | None) -> None:
    """Say how the next page of a list is asked for, if there is one."""
    if next is not None:
        click.echo(f"more may follow: continue with --after {shlex.quote(next)}", err=True)


def goes_on(found: Sequence[object], limit: int, last: str) -> None:
    """Print how to continue a list that reached its limit: after its last element."""
    if len(found) == limit:
        click.echo(f"more may follow: continue with --after {shlex.quote(last)}", err=True)


def placed_time(text: str) -> datetime | timedelta:
    """Parse a time, in UTC unless it names another zone; or an age, by the engine's clock, which is not known yet."""
    with suppress(ValueError):
        time = datetime.fromisoformat(text)
        return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    try:
        return timedelta(microseconds=span(text))
    except InvalidRequest:
        raise click.BadParameter(
            f"{text!r} is neither a time such as 2026-05-01T12:30, in UTC, nor an age such as 2h or 7d"
        ) from None


def verbs(hk: Opened, force: bool) -> Any:
    """Return the kernel, or what its operator calls."""
    return hk.admin if force else hk


def row_of(hold: Hold) -> list[str]:
    """Return a hold as a row of a table."""
    legs = ", ".join(f"{leg.pool} × {leg.quantity}" for leg in hold.legs[:3]) + (", …" if len(hold.legs) > 3 else "")
    return [
        hold.id,
        str(hold.state),
        legs,
        clock_time(hold.raw.deadline),
        str(hold.fence),
        hold.actor or "",
        hold.entity or "",
    ]


def hold_document(hk: Opened, hold: Hold, *, secret: bool = False) -> HoldNow:
    """Return a hold as a document; with `secret`, including its token."""
    document = hold_now(hold, hk._executor.clock(), str, secret=secret, with_tenant=is_local(hk))
    document.position = hold.position  # of a server: as it spells it for this key
    return document


def print_hold(hk: Opened, hold: Hold, in_json: bool) -> int:
    """Print a hold, without its token."""
    Output(in_json).table([hold_document(hk, hold)], HEADS, [row_of(hold)])
    return OK


def print_ticket(hk: Opened, hold: Hold, in_json: bool) -> int:
    """Print the ticket of a hold that was just placed; on a terminal, also until when it is held."""
    Output(in_json).write(hold_document(hk, hold, secret=True), "" if hold.token is None else hold.ticket)
    if not in_json and sys.stdout.isatty():
        until = f"until {clock_time(hold.raw.deadline)} UTC" if hold.raw.deadline is not None else "without a deadline"
        click.echo(
            f"waits {until}" if hold.state is State.WAITING else f"{hold.state} {until}, fence {hold.fence}", err=True
        )
    return OK


def pool_row(pool: Pool) -> list[str]:
    """Return a pool as a row of a table."""
    flags = ((f"{pool.waiting} waiting", pool.waiting), ("over", pool.over), ("archived", pool.archived))
    shown = ", ".join(word for word, applies in flags if applies)
    return [pool.id, str(pool.total), str(pool.held), str(pool.consumed), str(pool.available), shown]


def print_pool(hk: Opened, pool: Pool, in_json: bool) -> int:
    """Print a pool."""
    Output(in_json).table([pool_now(pool.raw, time_of(hk), with_tenant=is_local(hk))], POOL_HEADS, [pool_row(pool)])
    return OK


def ticket_from(hold: str) -> str:
    """Return the ticket or id; - reads it from stdin, so that it does not appear in the list of processes."""
    return sys.stdin.readline().strip() if hold == "-" else hold


def hold_named(hold: str, token: str | None) -> Any:
    """Return the hold that a command ends: its ticket, or its id with --token."""
    return present(ticket_from(hold), token)


def requested_legs(pool: str | None, units: int | None, legs: list[tuple[str, int]]) -> tuple[What, int | None]:
    """Return what to hold: one pool and a quantity, or legs."""
    if pool is not None and not legs:
        return pool, 1 if units is None else units
    if pool is not None or units is not None:
        raise click.UsageError("give either a pool (with --units) or legs (--leg POOL UNITS), not both")
    if not legs:
        raise click.UsageError("no pool given: name one, or use --leg POOL UNITS")
    return list(legs), None


def amounts(units: int | None, legs: list[tuple[str, int]]) -> Amounts:
    """Return the quantities to act on, from --units or --leg."""
    if legs and units is not None:
        raise click.UsageError("give either --units or --leg POOL UNITS, not both")
    if len({pool for pool, _ in legs}) != len(legs):
        raise invalid("leg", "pool_twice", "names a pool twice")
    return dict(legs) if legs else units


def seconds(text: str | None) -> str | float | None:
    """Parse an interval from the command line, if it was given; a plain number means seconds."""
    return None if text is None else interval(text)


def interval(text: str) -> str | float:
    """Parse an interval from the command line."""
    try:
        return float(text)
    except ValueError:
        return text


def json_object(text: str | None) -> dict[str, Any] | None:
    """Parse a JSON object from the command line."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise invalid("metadata", "metadata_malformed", f"must be a JSON object: {error}") from None
