"""``holdkit join``, ``place``, ``pools line`` and ``accounts``: waiting in line, and what accounts use."""

from __future__ import annotations

from typing import Any

import click

from ..core.commands import JoinLine
from ..core.model import Leg, State
from ..kernel.arguments import call_fields, span
from ..kernel.arguments import hold_id as normal_id
from ..kernel.results import hold_of
from ..wire.holds import hold_answer, place_answer
from ..wire.pools import PoolUsageAnswer
from .arguments import (
    account_option,
    entity_option,
    goes_on,
    interval,
    json_object,
    limit_option,
    metadata_option,
    pass_limits_option,
    print_ticket,
    say_next,
    ticket_argument,
    ticket_from,
)
from .documents import NameDocument
from .options import call_of, call_options, is_local, open_kernel, tenant_options, time_of
from .output import OK, Output, clock_time
from .pools import pools


@click.command()
@click.argument("pool")
@click.option("--units", type=int, default=1, show_default=True, help="how many of POOL")
@click.option("--ttl", required=True, help="how long to wait: 90s, 5m, 2h")
@click.option("--offer-ttl", required=True, help="how long the offer stands: confirm the hold within it")
@click.option("--id", "hold_id", help="your own id: 32 hex digits or a UUID")
@entity_option
@metadata_option
@account_option
@pass_limits_option
@call_options
@tenant_options
def join(
    url: str | None, tenant: str, in_json: bool, pool: str, units: int, ttl: str, offer_ttl: str, hold_id: str | None,
    entity: str | None, metadata: str | None, account: str | None, force: bool, **call: Any,
) -> int:  # fmt: skip
    """Join the line of a pool, and return at once. Prints the ticket that place, confirm, release and extend
    need. The hold waits until units are offered to it, in the order of the line.

    \b
    Example:
      TICKET=$(holdkit join show:42 --units 2 --ttl 2h --offer-ttl 10m)
      holdkit place "$TICKET"
    """
    with open_kernel(url, tenant) as hk:
        command = JoinLine(
            legs=(Leg(pool, units),), ttl_slots=span(interval(ttl)), offer_slots=span(interval(offer_ttl), "offer_ttl"),
            id=None if hold_id is None else normal_id(hold_id), entity=entity, metadata=json_object(metadata), account=account,
            force=force, **call_fields(call_of(call), tenant),
        )  # fmt: skip
        hold = hold_of(hk._executor.execute(command), None)
        return print_ticket(hk, hold, in_json)


@click.command()
@ticket_argument
@tenant_options
def place(url: str | None, tenant: str, in_json: bool, hold: str) -> int:
    """Show a hold's place in line: 1 is next, and 1001 is any place behind 1,000. TICKET may be - (read from stdin), or an
    id.

    \b
    Example:
      holdkit place "$TICKET"
    """
    named = ticket_from(hold)
    with open_kernel(url, tenant) as hk:
        place, found = hk.place(named), hk.get(named)
        document = place_answer(found.raw, place if found.state is State.WAITING else None, time_of(hk))
    shown = "" if place is None else str(place)
    row = [document.hold, str(document.state), shown, clock_time(document.deadline)]
    Output(in_json).table([document], ("hold", "state", "place", "deadline"), [row])
    return OK


@pools.command()
@click.argument("pool")
@click.option("--after", help="start after this place, which the page before has printed")
@limit_option
@tenant_options
def line(url: str | None, tenant: str, in_json: bool, pool: str, after: str | None, limit: int) -> int:
    """List who waits in the line of a pool, in the order in which units are offered.

    \b
    Example:
      holdkit pools line show:42 --limit 10
    """
    with open_kernel(url, tenant) as hk:
        found, named = hk.line(pool, after=after, limit=limit), is_local(hk)
    rows = [
        [
            str(one.raw.number),
            one.id,
            str(one.legs[0].quantity),
            clock_time(one.raw.deadline),
            one.account or "",
            one.actor or "",
        ]
        for one in found
    ]
    heads = ("number", "hold", "units", "until", "account", "actor")
    Output(in_json).table([hold_answer(one.raw, with_tenant=named) for one in found], heads, rows)
    say_next(found.next)
    return OK


@click.group()
def accounts() -> None:
    """Accounts: what each customer, or whoever else holds are for, uses of the pools.

    \b
    Example:
      holdkit accounts usage customer:7
    """


@accounts.command("list")
@click.option("--prefix", default="", help="only names that begin with this")
@click.option("--after", default="", help="start after this name")
@limit_option
@tenant_options
def list_accounts(url: str | None, tenant: str, in_json: bool, prefix: str, after: str, limit: int) -> int:
    """List the accounts that use anything of a pool, in order of name.

    \b
    Example:
      holdkit accounts list --prefix customer:
    """
    with open_kernel(url, tenant) as hk:
        found = hk.accounts.list(prefix, after=after, limit=limit)
    Output(in_json).table([NameDocument(name) for name in found], ("account",), [[name] for name in found])
    goes_on(found, limit, found[-1] if found else "")
    return OK


@accounts.command()
@click.argument("account")
@click.option("--after", default="", help="start after this pool")
@limit_option
@tenant_options
def usage(url: str | None, tenant: str, in_json: bool, account: str, after: str, limit: int) -> int:
    """Show what an account waits for, holds and has confirmed, by pool, and the limit per account of each.

    \b
    Example:
      holdkit accounts usage customer:7 --json
    """
    with open_kernel(url, tenant) as hk:
        found = hk.accounts.usage(account, after=after, limit=limit)
    documents = [PoolUsageAnswer(one.pool, one.used, one.limit) for one in found]
    rows = [[one.pool, str(one.used), "-" if one.limit is None else str(one.limit)] for one in found]
    Output(in_json).table(documents, ("pool", "used", "limit"), rows)
    goes_on(found, limit, found[-1].pool if found else "")
    return OK
