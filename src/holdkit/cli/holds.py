"""``holdkit hold``, ``consume``, ``confirm``, ``release``, ``extend``, ``return``, ``reassign`` and ``holds``."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from ..core.model import State
from ..wire.holds import hold_answer
from .arguments import (
    HEADS,
    account_option,
    entity_option,
    force_option,
    hold_named,
    leg_option,
    metadata_option,
    pass_limits_option,
    placed_time,
    print_hold,
    row_of,
    ticket_argument,
    ticket_from,
    token_option,
    verbs,
)
from .options import call_of, call_options, is_local, open_kernel, tenant_options, time_of
from .output import OK, Output
from .plain import plain


@plain("hold")
@click.argument("pool", required=False)
@click.option("--units", type=int, help="how many of POOL  [default: 1]")
@leg_option
@click.option("--ttl", help="time to live: 90s, 5m, 2h")
@click.option("--id", "hold_id", help="your own id: 32 hex digits or a UUID")
@entity_option
@metadata_option
@account_option
@pass_limits_option
def hold() -> None:
    """Hold units of one pool, or of several (all or nothing). Prints the ticket that confirm, release and extend need.

    \b
    Example:
      TICKET=$(holdkit hold gpu --units 2 --ttl 5m)
      holdkit hold --leg room:12 1 --leg parking 2 --ttl 15m --json
    """


@plain("consume")
@click.argument("pool", required=False)
@click.option("--units", type=int, help="how many of POOL  [default: 1]")
@leg_option
@click.option("--id", "hold_id", help="your own id: 32 hex digits or a UUID")
@entity_option
@metadata_option
@account_option
@pass_limits_option
def consume() -> None:
    """Hold and confirm in one step, units of one pool or of several (all or nothing). Prints the ticket that return needs.

    \b
    Example:
      holdkit consume gpu --units 2 --entity order:9 --op order-9
    """


@plain("confirm")
@ticket_argument
@token_option
@click.option("--units", type=int, help="confirm only this many units and release the rest")
@leg_option
@click.option("--keep-rest", is_flag=True, help="keep the rest held")
@click.option("--overage", type=click.Choice(["reject", "if_available", "up_to_available"]), default="reject")
@entity_option
@force_option
def confirm() -> None:
    """Make held units consumed. TICKET may be - (read from stdin), or an id with --token or --force.

    \b
    Example:
      holdkit confirm "$TICKET" --entity order:9
      holdkit confirm 0199c0ffee… --force --reason "paid by bank transfer"
    """


@plain("release")
@ticket_argument
@token_option
@click.option("--units", type=int, help="release only this many units")
@leg_option
@force_option
def release() -> None:
    """Make held units available; a hold that waits leaves its line. TICKET may be - (read from stdin), or an id with --token or --force.

    \b
    Example:
      holdkit release "$TICKET" --reason payment_failed
      holdkit release 0199c0ffee… --force --reason "worker died"
    """


@plain("extend")
@ticket_argument
@token_option
@click.option("--by", help="time to add to the current deadline")
@click.option("--ttl", help="time to live, counted from now")
@force_option
def extend() -> None:
    """Move the deadline to a later time, never to an earlier one. TICKET may be - (read from stdin), or an id with --token or
    --force.

    \b
    Example:
      holdkit extend "$TICKET" --by 5m
      holdkit extend 0199c0ffee… --by 1h --force --reason "customer called"
    """


@plain("return_units", "return")
@ticket_argument
@token_option
@click.option("--units", type=int, help="return only this many units")
@leg_option
@force_option
def return_() -> None:
    """Make consumed units available again. TICKET may be - (read from stdin), or an id with --token or --force.

    \b
    Example:
      holdkit return "$TICKET" --reason order_cancelled
      holdkit return 0199c0ffee… --force --reason "refund of order 9"
    """


@click.command()
@ticket_argument
@token_option
@account_option
@click.option("--no-account", is_flag=True, help="for nobody in particular from now on")
@force_option
@call_options
@tenant_options
def reassign(
    url: str | None, tenant: str, in_json: bool, hold: str, token: str | None, account: str | None, no_account: bool,
    force: bool, **call: Any,
) -> int:  # fmt: skip
    """Move a held hold, with all that it counts for, to another account. TICKET may be - (read from stdin), or an id with --token or
    --force.

    \b
    Example:
      holdkit reassign "$TICKET" --account customer:9
      holdkit reassign 0199c0ffee… --no-account --force --reason "customer called"
    """
    if (account is None) != no_account:
        raise click.UsageError("give either --account or --no-account")
    with open_kernel(url, tenant) as hk:
        done = verbs(hk, force).reassign(hold_named(hold, token), account=account, **call_of(call))
        return print_hold(hk, done, in_json)


@click.group()
def holds() -> None:
    """Show holds: who holds what, until when.

    \b
    Example:
      holdkit holds list --pool gpu --state held
    """


@holds.command("list")
@click.option("--pool", help="only holds on this pool")
@click.option("--state", type=click.Choice([str(state) for state in State]), help="only holds in this state")
@click.option("--entity", help="only holds for this entity")
@click.option("--actor", help="only holds that this actor placed")
@click.option("--account", help="only holds for this account")
@click.option(
    "--from",
    "placed_from",
    type=placed_time,
    metavar="TIME",
    help="only holds placed at this time or later: UTC, or an age",
)
@click.option(
    "--to", "placed_to", type=placed_time, metavar="TIME", help="only holds placed before this time: UTC, or an age"
)
@click.option("--newest", is_flag=True, help="in the opposite order")
@click.option("--after", default="", help="start after this id")
@click.option("--before", default="", help="the page that ends in front of this id")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@tenant_options
def list_holds(
    url: str | None, tenant: str, in_json: bool, placed_from: datetime | timedelta | None,
    placed_to: datetime | timedelta | None, newest: bool, **filters: Any,
) -> int:  # fmt: skip
    """List holds in order of id. Generated ids are in order of creation. If there are more, it says how to continue.

    \b
    Example:
      holdkit holds list --pool gpu --state held --json
      holdkit holds list --actor user:7 --newest --limit 20
      holdkit holds list --from 2h --to 2026-05-01T12:30
    """
    with open_kernel(url, tenant) as hk:
        times = {"placed_from": placed_from, "placed_to": placed_to}
        moments: dict[str, Any] = {
            name: time_of(hk) - time if isinstance(time, timedelta) else time for name, time in times.items()
        }
        found = hk.holds(newest_first=newest, **moments, **filters)
        named = is_local(hk)
    if found.next is not None:
        click.echo(
            f"more holds follow: continue with --{'before' if filters['before'] else 'after'} {found.next}", err=True
        )
    Output(in_json).table(
        [hold_answer(one.raw, with_tenant=named) for one in found], HEADS, [row_of(one) for one in found]
    )
    return OK


@holds.command()
@click.argument("hold", metavar="HOLD")
@tenant_options
def show(url: str | None, tenant: str, in_json: bool, hold: str) -> int:
    """Show one hold by id or ticket, without its token.

    \b
    Example:
      holdkit holds show 0199c0ffee…
    """
    with open_kernel(url, tenant) as hk:
        return print_hold(hk, hk.get(ticket_from(hold)), in_json)
