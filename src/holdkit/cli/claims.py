"""``holdkit claim``: a unique key before there is anything to give it to, such as an e-mail address during sign-up."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..faces.claim import Claim
from .documents import claim_document, clock_time
from .holds import named, owner_option, seconds
from .options import call_of, call_options, kernel, of_tenant
from .output import FINE, Output

HEADS = ("claim", "key", "state", "deadline", "entity", "fence")


@click.group()
def claim() -> None:
    """Claim a unique key for a while, then confirm it for ever or let it go.

    \b
    Example:
      TICKET=$(holdkit claim reserve email alice@example.com --ttl 5m)
      holdkit claim confirm "$TICKET" --entity user:7
    """


@claim.command()
@click.argument("type_", metavar="TYPE")
@click.argument("value")
@click.option("--ttl", required=True, help="how long: 90s, 5m, 2h; at most 24h")
@click.option("--owner", help="a token of your own: the same owner gets the same claim again")
@call_options
@of_tenant
def reserve(
    url: str | None, tenant: str, in_json: bool, type_: str, value: str, ttl: str, owner: str | None, **call: Any
) -> int:
    """Claim TYPE:VALUE. Prints the ticket that confirm and release need.

    \b
    Example:
      holdkit claim reserve username alice --ttl 5m
    """
    with kernel(url, tenant) as hk:
        found = hk.claims.reserve(type_, value, ttl=_given(ttl), owner=owner, **call_of(call))
    Output(in_json).say(claim_document(found), found.ticket or "")
    if not in_json and sys.stdout.isatty():
        click.echo(f"claimed until {clock_time(found.deadline)} UTC, as {found.id}", err=True)
    return FINE


@claim.command()
@click.argument("which", metavar="TICKET")
@click.option("--entity", required=True, help="whom it belongs to from now on: user:7")
@owner_option
@call_options
@of_tenant
def confirm(
    url: str | None, tenant: str, in_json: bool, which: str, entity: str, owner: str | None, **call: Any
) -> int:
    """The key belongs to the entity, for ever. TICKET may be - (read from stdin), or an id with --owner.

    \b
    Example:
      holdkit claim confirm "$TICKET" --entity user:7
    """
    with kernel(url, tenant) as hk:
        return _told(hk.claims.confirm(named(which), entity=entity, owner=owner, **call_of(call)), in_json)


@claim.command()
@click.argument("which", metavar="TICKET")
@owner_option
@call_options
@of_tenant
def release(url: str | None, tenant: str, in_json: bool, which: str, owner: str | None, **call: Any) -> int:
    """The key is free for others at once. TICKET may be - (read from stdin), or an id with --owner.

    \b
    Example:
      holdkit claim release "$TICKET" --reason user_cancelled
    """
    with kernel(url, tenant) as hk:
        return _told(hk.claims.release(named(which), owner=owner, **call_of(call)), in_json)


@claim.command()
@click.argument("which", metavar="TICKET")
@owner_option
@click.option("--force", is_flag=True, help="without the owner token; needs --reason, and is journaled as forced")
@call_options
@of_tenant
def forget(url: str | None, tenant: str, in_json: bool, which: str, owner: str | None, force: bool, **call: Any) -> int:
    """Free a confirmed key: an account was closed, say. An id will do with --owner, or with --force and --reason.

    \b
    Example:
      holdkit claim forget "$TICKET" --reason "account closed"
    """
    with kernel(url, tenant) as hk:
        return _told(hk.claims.forget(named(which), owner=owner, force=force, **call_of(call)), in_json)


@claim.command()
@click.argument("type_", metavar="TYPE", required=False)
@click.argument("value", required=False)
@click.option("--id", "claim_id", help="res_ and 32 hex digits")
@click.option("--active", is_flag=True, help="only if it is held, and its deadline has not come")
@of_tenant
def find(
    url: str | None,
    tenant: str,
    in_json: bool,
    type_: str | None,
    value: str | None,
    claim_id: str | None,
    active: bool,
) -> int:
    """Look at a claim, by TYPE and VALUE or by --id; without its token. Says nothing if there is none.

    \b
    Example:
      holdkit claim find email alice@example.com --json
    """
    with kernel(url, tenant) as hk:
        found = hk.claims.find(id=claim_id, type=type_, value=value, active_only=active)
    rows = [] if found is None else [found]
    Output(in_json).table([claim_document(one) for one in rows], HEADS, [_row(one) for one in rows])
    return FINE


def _told(found: Claim, in_json: bool) -> int:
    Output(in_json).table([claim_document(found)], HEADS, [_row(found)])
    return FINE


def _row(found: Claim) -> list[str]:
    return [found.id, found.key, str(found.state), clock_time(found.deadline), found.entity or "", str(found.fence)]


def _given(ttl: str) -> str | float:
    given = seconds(ttl)
    assert given is not None
    return given
