"""``holdkit claims``: hold a unique key before its owner exists, such as an e-mail address during sign-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..core.validation import invalid
from ..faces.claim import Claim
from ..wire.claims import claim_answer
from .arguments import goes_on, limit_option
from .options import Opened, call_options, forced_call, is_local, open_kernel, tenant_options, time_of
from .output import OK, Output, clock_time
from .plain import plain

HEADS = ("claim", "key", "state", "deadline", "entity", "fence")


@click.group()
def claims() -> None:
    """Claims: unique keys. Hold one for a while, then confirm its hold for good or release it.

    \b
    Example:
      TICKET=$(holdkit claims hold email alice@example.com --ttl 5m)
      holdkit confirm "$TICKET" --entity user:7
    """


@plain("claims.hold", of=claims)
@click.argument("type", metavar="TYPE")
@click.argument("value")
@click.option("--ttl", required=True, help="time to live: 90s, 5m, 2h; at most 24h")
@click.option("--token", help="a token of your own: the same owner gets the same claim again")
def hold() -> None:
    """Hold the key TYPE:VALUE. Prints the ticket that `holdkit confirm` and `holdkit release` need.

    \b
    Example:
      holdkit claims hold username alice --ttl 5m
    """


@claims.command()
@click.argument("type_", metavar="TYPE", required=False)
@click.argument("value", required=False)
@click.option("--id", "claim_id", help="res_ and 32 hex digits")
@tenant_options
def show(
    url: str | None, tenant: str, in_json: bool, type_: str | None, value: str | None, claim_id: str | None
) -> int:
    """Show a claim by TYPE and VALUE, or by --id, without its token. Prints nothing if there is none.

    \b
    Example:
      holdkit claims show email alice@example.com --json
    """
    with open_kernel(url, tenant) as hk:
        if (claim_id is None) == (type_ is None or value is None):
            raise invalid("id", "id_required", "give a type and a value, or id=")
        claim = hk.claims.get(id=claim_id) if claim_id is not None else hk.claims.get(type_ or "", value or "")
        return _print(hk, [] if claim is None else [claim], in_json)


@claims.command("list")
@click.option("--entity", help="only keys that belong to this entity")
@click.option("--after", default="", help="start after this id")
@limit_option
@tenant_options
def list_claims(url: str | None, tenant: str, in_json: bool, entity: str | None, after: str, limit: int) -> int:
    """List claims in order of id: all, or those of an entity.

    \b
    Example:
      holdkit claims list --entity user:7
    """
    with open_kernel(url, tenant) as hk:
        page = hk.claims.list(entity=entity, after=after, limit=limit)
        goes_on(page, limit, page.next or "")
        return _print(hk, page, in_json)


@claims.command()
@click.argument("type_", metavar="TYPE")
@click.argument("value")
@call_options
@tenant_options
def free(url: str | None, tenant: str, in_json: bool, type_: str, value: str, **call: Any) -> int:
    """Free a confirmed key, for example when an account is closed; needs --reason, and is recorded as forced.

    \b
    Example:
      holdkit claims free email alice@example.com --reason "account closed"
    """
    with open_kernel(url, tenant) as hk:
        return _print(hk, [hk.claims.free(type_, value, **forced_call(call))], in_json)


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
