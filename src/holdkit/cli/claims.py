"""``holdkit claim``: reserve a unique key before its owner exists, such as an e-mail address during sign-up."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from ..faces.claim import Claim
from ..wire.claims import claim_answer
from .arguments import force_option, goes_on, interval, limit_option, seconds, ticket_from, token_option
from .options import Opened, call_of, call_options, is_local, open_kernel, tenant_options, time_of
from .output import OK, Output, clock_time

HEADS = ("claim", "key", "state", "deadline", "entity", "fence")


@click.group()
def claim() -> None:
    """Claim a unique key for a while, then confirm it permanently or release it.

    \b
    Example:
      TICKET=$(holdkit claim reserve email alice@example.com --ttl 5m)
      holdkit claim confirm "$TICKET" --entity user:7
    """


@claim.command()
@click.argument("type_", metavar="TYPE")
@click.argument("value")
@click.option("--ttl", required=True, help="time to live: 90s, 5m, 2h; at most 24h")
@click.option("--token", help="a token of your own: the same owner gets the same claim again")
@call_options
@tenant_options
def reserve(
    url: str | None, tenant: str, in_json: bool, type_: str, value: str, ttl: str, token: str | None, **call: Any
) -> int:
    """Claim TYPE:VALUE. Prints the ticket that confirm and release need.

    \b
    Example:
      holdkit claim reserve username alice --ttl 5m
    """
    with open_kernel(url, tenant) as hk:
        found = hk.claims.reserve(type_, value, ttl=interval(ttl), token=token, **call_of(call))
        document = claim_answer(found, time_of(hk), secret=True, with_tenant=is_local(hk))
    Output(in_json).write(document, found.ticket or "")
    if not in_json and sys.stdout.isatty():
        click.echo(f"claimed until {clock_time(found.deadline)} UTC, as {found.id}", err=True)
    return OK


@claim.command()
@click.argument("which", metavar="TICKET")
@click.option("--entity", required=True, help="the permanent owner, such as user:7")
@token_option
@call_options
@tenant_options
def confirm(
    url: str | None, tenant: str, in_json: bool, which: str, entity: str, token: str | None, **call: Any
) -> int:
    """Give the key to the entity, permanently. TICKET may be - (read from stdin), or an id with --token.

    \b
    Example:
      holdkit claim confirm "$TICKET" --entity user:7
    """
    with open_kernel(url, tenant) as hk:
        return _print(hk, [hk.claims.confirm(ticket_from(which), entity=entity, token=token, **call_of(call))], in_json)


@claim.command()
@click.argument("which", metavar="TICKET")
@token_option
@call_options
@tenant_options
def release(url: str | None, tenant: str, in_json: bool, which: str, token: str | None, **call: Any) -> int:
    """Free the key at once. TICKET may be - (read from stdin), or an id with --token.

    \b
    Example:
      holdkit claim release "$TICKET" --reason user_cancelled
    """
    with open_kernel(url, tenant) as hk:
        return _print(hk, [hk.claims.release(ticket_from(which), token=token, **call_of(call))], in_json)


@claim.command()
@click.argument("which", metavar="TICKET")
@token_option
@force_option
@call_options
@tenant_options
def forget(url: str | None, tenant: str, in_json: bool, which: str, token: str | None, force: bool, **call: Any) -> int:
    """Free a confirmed key, for example when an account is closed. An id needs --token, or --force and --reason.

    \b
    Example:
      holdkit claim forget "$TICKET" --reason "account closed"
    """
    with open_kernel(url, tenant) as hk:
        return _print(hk, [hk.claims.forget(ticket_from(which), token=token, force=force, **call_of(call))], in_json)


@claim.command()
@click.argument("which", metavar="TICKET")
@token_option
@click.option("--by", help="time to add to the current deadline")
@click.option("--ttl", help="time to live, counted from now")
@call_options
@tenant_options
def extend(
    url: str | None, tenant: str, in_json: bool, which: str, token: str | None, by: str | None, ttl: str | None,
    **call: Any,
) -> int:  # fmt: skip
    """Move the deadline to a later time, never to an earlier one. TICKET may be - (read from stdin), or an id with --token.

    \b
    Example:
      holdkit claim extend "$TICKET" --by 5m
    """
    with open_kernel(url, tenant) as hk:
        done = hk.claims.extend(ticket_from(which), by=seconds(by), ttl=seconds(ttl), token=token, **call_of(call))
        return _print(hk, [done], in_json)


@claim.command("list")
@click.option("--entity", help="only keys that belong to this entity")
@click.option("--after", default="", help="start after this id")
@limit_option
@tenant_options
def list_claims(url: str | None, tenant: str, in_json: bool, entity: str | None, after: str, limit: int) -> int:
    """List claims in order of id: all, or those of an entity.

    \b
    Example:
      holdkit claim list --entity user:7
    """
    with open_kernel(url, tenant) as hk:
        if entity is None:
            found = hk.claims.listed(after=after, limit=limit)
        else:
            found = hk.claims.linked(entity, after=after, limit=limit)
        goes_on(found, limit, found[-1].id if found else "")
        return _print(hk, found, in_json)


@claim.command()
@click.argument("type_", metavar="TYPE", required=False)
@click.argument("value", required=False)
@click.option("--id", "claim_id", help="res_ and 32 hex digits")
@click.option("--active", is_flag=True, help="only if it is held and its deadline has not passed")
@tenant_options
def find(
    url: str | None,
    tenant: str,
    in_json: bool,
    type_: str | None,
    value: str | None,
    claim_id: str | None,
    active: bool,
) -> int:
    """Show a claim by TYPE and VALUE, or by --id, without its token. Prints nothing if there is none.

    \b
    Example:
      holdkit claim find email alice@example.com --json
    """
    with open_kernel(url, tenant) as hk:
        found = hk.claims.find(id=claim_id, type=type_, value=value, active_only=active)
        return _print(hk, [] if found is None else [found], in_json)


def _print(hk: Opened, found: Sequence[Claim], in_json: bool) -> int:
    documents = [claim_answer(one, time_of(hk), with_tenant=is_local(hk)) for one in found]
    Output(in_json).table(documents, HEADS, [_row(one) for one in found])
    return OK


def _row(found: Claim) -> list[str]:
    return [found.id, found.key, str(found.state), clock_time(found.deadline), found.entity or "", str(found.fence)]
