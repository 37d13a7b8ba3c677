"""``holdkit claim``: reserve a unique key before its owner exists, such as an e-mail address during sign-up."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click

from ..core.keyed import CLAIM, CLAIMS, ERASED_CLAIM
from ..core.model import State
from ..core.validation import invalid
from ..errors import HoldNotFound
from ..faces.claim import Claim, claim_of
from ..faces.keys import key_of
from ..kernel.normalise import Presented, reference
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
        hold = hk.claims.hold(type_, value, ttl=interval(ttl), token=token, **call_of(call))
        claim = claim_of(hold, key_of(type_, value))
        document = claim_answer(claim, time_of(hk), replayed=hold.replayed, with_tenant=is_local(hk))
        document.token, document.ticket = hold.token, hold.ticket
    Output(in_json).write(document, hold.ticket or "")
    if not in_json and sys.stdout.isatty():
        click.echo(f"claimed until {clock_time(document.deadline)} UTC, as {claim.id}", err=True)
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
        key, hold = _named(hk, ticket_from(which), token)
        return _print(hk, [claim_of(hk.confirm(hold, entity=entity, **call_of(call)), key)], in_json)


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
        key, hold = _named(hk, ticket_from(which), token)
        return _print(hk, [claim_of(hk.release(hold, **call_of(call)), key)], in_json)


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
        if force:
            freed = hk.claims._free(ticket_from(which), call_of(call))  # noqa: SLF001  (by its id, which only this and HTTP do)
            return _print(hk, [freed.claim], in_json)
        key, hold = _named(hk, ticket_from(which), token)
        return _print(hk, [claim_of(hk.return_units(hold, **call_of(call)), key)], in_json)


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
        key, hold = _named(hk, ticket_from(which), token)
        return _print(hk, [claim_of(hk.extend(hold, by=seconds(by), ttl=seconds(ttl), **call_of(call)), key)], in_json)


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
        page = hk.claims.list(entity=entity, after=after, limit=limit)
        goes_on(page, limit, page.next or "")
        return _print(hk, page, in_json)


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
        if (claim_id is None) == (type_ is None or value is None):
            raise invalid("id", "id_required", "give a type and a value, or id=")
        claim = hk.claims.get(id=claim_id) if claim_id is not None else hk.claims.get(type_ or "", value or "")
        if claim is None or (active and claim.state is not State.HELD):
            return _print(hk, [], in_json)
        return _print(hk, [claim], in_json)


def _named(hk: Opened, which: str, token: str | None) -> tuple[str, Any]:
    """Return the key and the hold of a claim that is named by its ticket, or by its id or its hold's with --token."""
    if which.startswith((CLAIM, ERASED_CLAIM)):
        claim = hk.claims.get(id=which)
        if claim is None or claim.hold is None:
            raise HoldNotFound(f"there is no claim {which!r}: check the id and the tenant", subject=which)
        return claim.key, Presented(claim.hold, token)
    id, token = reference(which, token)
    claim = hk.claims.get(id=hk.get(id).legs[0].pool.removeprefix(CLAIMS))
    return "" if claim is None else claim.key, Presented(id, token)


def _print(hk: Opened, found: Sequence[Claim], in_json: bool) -> int:
    documents = [claim_answer(one, time_of(hk), with_tenant=is_local(hk)) for one in found]
    Output(in_json).table(documents, HEADS, [_row(one) for one in found])
    return OK


def _row(found: Claim) -> list[str]:
    return [
        found.id,
        found.key,
        str(found.state),
        clock_time(None if found.raw.hold is None else found.raw.hold.deadline),
        found.entity or "",
        str(found.fence),
    ]
