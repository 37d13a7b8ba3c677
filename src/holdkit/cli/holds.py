"""``holdkit hold``, ``confirm``, ``release``, ``extend``, and ``holds``: what is held, by whom, until when."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
import msgspec

from ..core.commands import Amounts, Overage
from ..core.model import State
from ..core.validation import invalid
from ..kernel.normalise import What
from ..kernel.results import Hold
from .documents import clock_time, hold_document
from .options import call_of, call_options, kernel, of_tenant
from .output import FINE, Output

HEADS = ("hold", "state", "legs", "deadline", "fence", "actor", "entity")

leg_option: Callable[[Any], Any] = click.option(
    "--leg", "legs", type=(str, int), multiple=True, metavar="POOL UNITS", help="a pool and how many units; repeatable"
)
which: Callable[[Any], Any] = click.argument("hold", metavar="TICKET")
owner_option: Callable[[Any], Any] = click.option("--owner", help="the owner token, if only the id is given")


@click.command()
@click.argument("pool", required=False)
@click.option("--units", type=int, help="how many of POOL  [default: 1]")
@leg_option
@click.option("--ttl", help="how long: 90s, 5m, 2h")
@click.option("--id", "hold_id", help="an id of your own: 32 hex digits or a UUID")
@click.option("--entity", help="what it is for: order:9")
@click.option("--metadata", help="a JSON object of your own")
@call_options
@of_tenant
def hold(
    url: str | None, tenant: str, in_json: bool, pool: str | None, units: int | None, legs: list[tuple[str, int]],
    ttl: str | None, hold_id: str | None, entity: str | None, metadata: str | None, **call: Any,
) -> int:  # fmt: skip
    """Hold units of one pool, or of several (all or nothing). Prints the ticket that confirm, release and extend need.

    \b
    Example:
      TICKET=$(holdkit hold gpu --units 2 --ttl 5m)
      holdkit hold --leg room:12 1 --leg parking 2 --ttl 15m --json
    """
    what, quantity = asked(pool, units, legs)
    with kernel(url, tenant) as hk:
        held = hk.hold(
            what, quantity, ttl=seconds(ttl), id=hold_id, entity=entity, metadata=_object(metadata), **call_of(call)
        )
    Output(in_json).say(hold_document(held), held.ticket or "")
    if not in_json and sys.stdout.isatty():
        click.echo(f"held until {clock_time(held.deadline)} UTC, fence {held.fence}", err=True)
    return FINE


@click.command()
@which
@owner_option
@click.option("--units", type=int, help="less than is held: the rest is released")
@leg_option
@click.option("--keep-rest", is_flag=True, help="the rest stays held")
@click.option("--overage", type=click.Choice(["reject", "if_available", "up_to_available"]), default="reject")
@click.option("--entity", help="what it is for: order:9")
@call_options
@of_tenant
def confirm(
    url: str | None, tenant: str, in_json: bool, hold: str, owner: str | None, units: int | None,
    legs: list[tuple[str, int]], keep_rest: bool, overage: Overage, entity: str | None, **call: Any,
) -> int:  # fmt: skip
    """Held units become consumed. TICKET may be - (read from stdin), or an id with --owner.

    \b
    Example:
      holdkit confirm "$TICKET" --entity order:9
    """
    with kernel(url, tenant) as hk:
        done = hk.confirm(
            named(hold), owner=owner, quantity=amounts(units, legs), keep_rest=keep_rest, overage=overage,
            entity=entity, **call_of(call),
        )  # fmt: skip
    return _told(done, in_json)


@click.command()
@which
@owner_option
@click.option("--units", type=int, help="less than is held")
@leg_option
@click.option("--force", is_flag=True, help="without the owner token; needs --reason, and is journaled as forced")
@call_options
@of_tenant
def release(
    url: str | None, tenant: str, in_json: bool, hold: str, owner: str | None, units: int | None,
    legs: list[tuple[str, int]], force: bool, **call: Any,
) -> int:  # fmt: skip
    """Held units become available. TICKET may be - (read from stdin), or an id with --owner or --force.

    \b
    Example:
      holdkit release "$TICKET" --reason payment_failed
      holdkit release 0199c0ffee… --force --reason "worker died"
    """
    with kernel(url, tenant) as hk:
        done = hk.release(named(hold), owner=owner, quantity=amounts(units, legs), force=force, **call_of(call))
    return _told(done, in_json)


@click.command()
@which
@owner_option
@click.option("--by", help="so much later than the present deadline")
@click.option("--ttl", help="so long from now")
@call_options
@of_tenant
def extend(
    url: str | None, tenant: str, in_json: bool, hold: str, owner: str | None, by: str | None, ttl: str | None, **call: Any
) -> int:  # fmt: skip
    """A later deadline; never an earlier one.

    \b
    Example:
      holdkit extend "$TICKET" --by 5m
    """
    with kernel(url, tenant) as hk:
        done = hk.extend(named(hold), owner=owner, by=seconds(by), ttl=seconds(ttl), **call_of(call))
    return _told(done, in_json)


@click.command("return")
@which
@owner_option
@click.option("--units", type=int, help="less than was confirmed")
@leg_option
@click.option("--force", is_flag=True, help="without the owner token; needs --reason, and is journaled as forced")
@call_options
@of_tenant
def return_(
    url: str | None, tenant: str, in_json: bool, hold: str, owner: str | None, units: int | None,
    legs: list[tuple[str, int]], force: bool, **call: Any,
) -> int:  # fmt: skip
    """Consumed units become available again. TICKET may be - (read from stdin), or an id with --owner or --force.

    \b
    Example:
      holdkit return "$TICKET" --reason order_cancelled
      holdkit return 0199c0ffee… --force --reason "refund of order 9"
    """
    with kernel(url, tenant) as hk:
        done = hk.return_units(named(hold), owner=owner, quantity=amounts(units, legs), force=force, **call_of(call))
    return _told(done, in_json)


@click.group()
def holds() -> None:
    """Look at holds: who holds what, until when.

    \b
    Example:
      holdkit holds list --pool gpu --state held
    """


@holds.command("list")
@click.option("--pool", help="only with a leg on this pool")
@click.option("--state", type=click.Choice([str(state) for state in State]), help="only in this state")
@click.option("--entity", help="only for this entity")
@click.option("--after", default="", help="go on behind this id")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@of_tenant
def list_holds(
    url: str | None, tenant: str, in_json: bool, pool: str | None, state: str | None, entity: str | None, after: str,
    limit: int,
) -> int:  # fmt: skip
    """Holds in order of id, which for minted ids is the order of birth.

    \b
    Example:
      holdkit holds list --pool gpu --state held --json
    """
    with kernel(url, tenant) as hk:
        found = hk.holds(pool=pool, state=state, entity=entity, after=after, limit=limit)
    Output(in_json).table([hold_document(one) for one in found], HEADS, [row_of(one) for one in found])
    return FINE


@holds.command()
@click.argument("hold", metavar="HOLD")
@of_tenant
def show(url: str | None, tenant: str, in_json: bool, hold: str) -> int:
    """One hold as it is now, by id or ticket; without its token.

    \b
    Example:
      holdkit holds show 0199c0ffee…
    """
    with kernel(url, tenant) as hk:
        return _told(hk.get(named(hold)), in_json)


def row_of(hold: Hold) -> list[str]:
    """A hold as a row of a table."""
    legs = ", ".join(f"{leg.pool} × {leg.quantity}" for leg in hold.legs[:3]) + (", …" if len(hold.legs) > 3 else "")
    return [
        hold.id,
        str(hold.state),
        legs,
        clock_time(hold.deadline),
        str(hold.fence),
        hold.actor or "",
        hold.entity or "",
    ]


def _told(hold: Hold, in_json: bool) -> int:
    Output(in_json).table([hold_document(hold)], HEADS, [row_of(hold)])
    return FINE


def named(hold: str) -> str:
    """A ticket or id; - means the first line of stdin, which no process list shows."""
    return sys.stdin.readline().strip() if hold == "-" else hold


def asked(pool: str | None, units: int | None, legs: list[tuple[str, int]]) -> tuple[What, int | None]:
    """What to hold: one pool with a number, or legs."""
    if pool is not None and not legs:
        return pool, 1 if units is None else units
    if pool is not None or units is not None:
        raise click.UsageError("give a pool (with --units), or legs (--leg POOL UNITS), not both")
    if not legs:
        raise click.UsageError("which pool? give its id, or --leg POOL UNITS")
    return list(legs), None


def amounts(units: int | None, legs: list[tuple[str, int]]) -> Amounts:
    """How much of a hold."""
    if legs and units is not None:
        raise click.UsageError("give --units, or --leg POOL UNITS, not both")
    if len({pool for pool, _ in legs}) != len(legs):
        raise invalid("leg", "pool_twice", "names a pool twice")
    return dict(legs) if legs else units


def seconds(text: str | None) -> str | float | None:
    """An interval as typed; a bare number means seconds."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _object(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise invalid("metadata", "metadata_malformed", f"must be a JSON object: {error}") from None
