"""``holdkit join``, ``place`` and ``accounts``: waiting in line, and what one account uses."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..wire.fields import plain_position
from ..wire.holds import hold_now, place_answer
from ..wire.pools import PoolUsageAnswer
from .holds import account_option, interval, json_object, pass_limits_option, ticket_argument, ticket_from
from .options import call_of, call_options, open_kernel, tenant_options, time_of
from .output import OK, Output, clock_time


@click.command()
@click.argument("pool")
@click.option("--units", type=int, default=1, show_default=True, help="how many of POOL")
@click.option("--ttl", required=True, help="how long to wait: 90s, 5m, 2h")
@click.option("--offer-ttl", required=True, help="how long the offer stands: confirm the hold within it")
@click.option("--id", "hold_id", help="your own id: 32 hex digits or a UUID")
@click.option("--entity", help="what the hold is for, such as order:9")
@click.option("--metadata", help="your own data, a JSON object")
@account_option
@pass_limits_option
@call_options
@tenant_options
def join(
    url: str | None, tenant: str, in_json: bool, pool: str, units: int, ttl: str, offer_ttl: str, hold_id: str | None,
    entity: str | None, metadata: str | None, account: str | None, force: bool, **call: Any,
) -> int:  # fmt: skip
    """Join the line of a pool, and return at once. Prints the ticket that place, confirm, release (which leaves the line) and extend
    need. The hold waits until units are offered to it, in the order of the line.

    \b
    Example:
      TICKET=$(holdkit join show:42 --units 2 --ttl 2h --offer-ttl 10m)
      holdkit place "$TICKET"
    """
    with open_kernel(url, tenant) as hk:
        hold = hk.join(
            pool, units, ttl=interval(ttl), offer_ttl=interval(offer_ttl), id=hold_id, entity=entity,
            metadata=json_object(metadata), account=account, force=force, **call_of(call),
        )  # fmt: skip
        document = hold_now(hold, time_of(hk), plain_position, secret=True, with_tenant=True)
    Output(in_json).write(document, hold.ticket or "")
    if not in_json and sys.stdout.isatty():
        until = clock_time(hold.deadline)
        click.echo(
            f"waits until {until} UTC" if hold.waiting else f"held until {until} UTC, fence {hold.fence}", err=True
        )
    return OK


@click.command()
@ticket_argument
@tenant_options
def place(url: str | None, tenant: str, in_json: bool, hold: str) -> int:
    """Show how many wait in line ahead of a hold, counted up to 1,000. TICKET may be - (read from stdin), or an id.

    \b
    Example:
      holdkit place "$TICKET"
    """
    named = ticket_from(hold)
    with open_kernel(url, tenant) as hk:
        ahead, found = hk.place(named), hk.get(named)
        document = place_answer(found.row, ahead if found.waiting else None, time_of(hk))
    shown = "" if document.ahead is None else str(document.ahead)
    row = [document.hold, str(document.state), shown, clock_time(document.deadline)]
    Output(in_json).table([document], ("hold", "state", "ahead", "deadline"), [row])
    return OK


@click.group()
def accounts() -> None:
    """Accounts: what each customer, or whoever else holds are for, uses of the pools.

    \b
    Example:
      holdkit accounts usage customer:7
    """


@accounts.command()
@click.argument("account")
@click.option("--after", default="", help="start after this pool")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@tenant_options
def usage(url: str | None, tenant: str, in_json: bool, account: str, after: str, limit: int) -> int:
    """Show what an account waits for, holds and has confirmed, by pool, and the limit per account of each.

    \b
    Example:
      holdkit accounts usage customer:7 --json
    """
    with open_kernel(url, tenant) as hk:
        found = hk.account(account).usage(after=after, limit=limit)
    documents = [PoolUsageAnswer(one.pool, one.used, one.limit) for one in found]
    rows = [[one.pool, str(one.used), "-" if one.limit is None else str(one.limit)] for one in found]
    Output(in_json).table(documents, ("pool", "used", "limit"), rows)
    return OK
