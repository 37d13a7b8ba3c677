"""``holdkit budgets``: sets of budgets that are stored in a database or on its server, and their verbs."""

from __future__ import annotations

from typing import Any

import click

from ..core.commands import Overage
from ..core.validation import invalid
from ..faces._sync.budgets import Budget
from ..faces._sync.kernel import Kernel
from ..faces.allowances import Allowance, Spent
from ..wire.budgets import AllowanceBody, BudgetAnswer, BudgetSet, usage_answer
from ..wire.pools import pool_now
from .arguments import (
    HEADS,
    entity_option,
    goes_on,
    hold_document,
    hold_named,
    interval,
    json_object,
    limit_option,
    metadata_option,
    print_ticket,
    row_of,
    token_option,
)
from .options import Opened, call_of, call_options, is_local, open_kernel, tenant_options, time_of
from .output import OK, Output, clock_time
from .serve import need_server

USAGE_HEADS = ("budget", "per", "total", "held", "consumed", "available", "until")

name_argument = click.argument("name", metavar="SET")
amounts_argument = click.argument("amounts", metavar="AMOUNT|BUDGET=AMOUNT...", nargs=-1, required=True)


@click.group()
def budgets() -> None:
    """Budgets: hold an estimate, confirm what was spent. A set is defined once, and counts for each client by itself.

    \b
    Example:
      holdkit budgets define llm tokens=1000000/day calls=60/minute,1000/day
      TICKET=$(holdkit budgets hold llm customer:7 tokens=2000 calls=1 --ttl 5m)
      holdkit budgets confirm llm "$TICKET" tokens=812
    """


@budgets.command("list")
@click.option("--after", default="", help="start after this name")
@limit_option
@tenant_options
def list_sets(url: str | None, tenant: str, in_json: bool, after: str, limit: int) -> int:
    """List the sets in order of name.

    \b
    Example:
      holdkit budgets list
    """
    with open_kernel(url, tenant) as hk:
        if isinstance(hk, Kernel):
            now = time_of(hk)
            found = [BudgetAnswer(name, one.budgets, now) for name, one in _stored(hk, tenant).listed(after, limit)]
        else:
            found = hk.server.budget_sets(after=after or None, limit=limit)
    goes_on(found, limit, found[-1].name if found else "")
    return _print_sets(found, in_json)


@budgets.command()
@name_argument
@tenant_options
def show(url: str | None, tenant: str, in_json: bool, name: str) -> int:
    """Show a set: its budgets and their allowances.

    \b
    Example:
      holdkit budgets show llm --json
    """
    with open_kernel(url, tenant) as hk:
        return _print_sets([_definition(hk, tenant, name)], in_json)


@budgets.command()
@name_argument
@click.argument("allowances", metavar="BUDGET=TOTAL/PER[@ZONE][,…]...", nargs=-1, required=True)
@click.option("--actor", envvar="HOLDKIT_ACTOR", help="who makes the change, such as user:7  [HOLDKIT_ACTOR]")
@tenant_options
def define(
    url: str | None, tenant: str, in_json: bool, name: str, allowances: tuple[str, ...], actor: str | None
) -> int:
    """Define a set, or change it for later windows; current windows keep their totals. PER is second, minute, hour, day, week, month,
    year, or a length such as 90s. (A server records the API key as the actor.)

    \b
    Example:
      holdkit budgets define llm tokens=1000000/day@Europe/Lisbon calls=60/minute,1000/day
    """
    asked = dict(_allowances(text) for text in allowances)
    if len(asked) != len(allowances):
        raise invalid("budgets", "budget_twice", "names a budget twice: separate its allowances with commas")
    with open_kernel(url, tenant, create=True) as hk:
        if isinstance(hk, Kernel):
            _stored(hk, tenant).store(name, BudgetSet(budgets=asked), actor)
        else:
            hk.budget(name).define(
                **{
                    budget: tuple(Allowance(one.total, per=one.per, zone=one.zone) for one in listed)
                    for budget, listed in asked.items()
                }
            )
        return _print_sets([_definition(hk, tenant, name)], in_json)


@budgets.command()
@name_argument
@click.argument("client")
@tenant_options
def usage(url: str | None, tenant: str, in_json: bool, name: str, client: str) -> int:
    """Show what a client has used of each current window.

    \b
    Example:
      holdkit budgets usage llm customer:7
    """
    with open_kernel(url, tenant) as hk:
        found = _opened(hk, tenant, name).usage(client)
    documents = [usage_answer(usage) for usage in found]
    rows = [
        [
            one.budget,
            one.per,
            *map(str, (one.total, one.held, one.consumed, one.available)),
            clock_time(one.closes),
        ]
        for one in documents
    ]
    Output(in_json).table(documents, USAGE_HEADS, rows)
    return OK


@budgets.command()
@name_argument
@click.argument("client")
@amounts_argument
@click.option("--ttl", required=True, help="time to live: 90s, 5m, 2h")
@click.option("--token", help="a token of your own, which confirm then needs")
@entity_option
@metadata_option
@call_options
@tenant_options
def hold(
    url: str | None, tenant: str, in_json: bool, name: str, client: str, amounts: tuple[str, ...], ttl: str,
    token: str | None, entity: str | None, metadata: str | None, **call: Any,
) -> int:  # fmt: skip
    """Hold an estimate, of all budgets named or of none. Prints the ticket that confirm needs.

    \b
    Example:
      holdkit budgets hold llm customer:7 tokens=2000 --ttl 5m
    """
    estimate = _amounts(amounts)
    with open_kernel(url, tenant) as hk:
        held = _opened(hk, tenant, name).hold(
            client, estimate, ttl=interval(ttl), token=token, entity=entity, metadata=json_object(metadata),
            **call_of(call),
        )  # fmt: skip
        return print_ticket(hk, held, in_json)


@budgets.command()
@name_argument
@click.argument("client")
@amounts_argument
@entity_option
@metadata_option
@call_options
@tenant_options
def consume(
    url: str | None, tenant: str, in_json: bool, name: str, client: str, amounts: tuple[str, ...], entity: str | None,
    metadata: str | None, **call: Any,
) -> int:  # fmt: skip
    """Spend a known amount in one step, of all budgets named or of none.

    \b
    Example:
      holdkit budgets consume llm customer:7 tokens=812 --op call-9
    """
    actual = _amounts(amounts)
    with open_kernel(url, tenant) as hk:
        spent = _opened(hk, tenant, name).consume(
            client, actual, entity=entity, metadata=json_object(metadata), **call_of(call)
        )
        return print_ticket(hk, spent, in_json)


@budgets.command()
@name_argument
@click.argument("hold", metavar="TICKET")
@click.argument("amounts", metavar="[AMOUNT|BUDGET=AMOUNT...]", nargs=-1)
@token_option
@click.option("--keep-rest", is_flag=True, help="keep the rest held")
@click.option(
    "--overage",
    type=click.Choice(["reject", "if_available", "up_to_available"]),
    default="up_to_available",
    show_default=True,
    help="what covers more than the estimate: nothing; all of it or nothing; or what is left",
)
@entity_option
@call_options
@tenant_options
def confirm(
    url: str | None, tenant: str, in_json: bool, name: str, hold: str, amounts: tuple[str, ...], token: str | None,
    keep_rest: bool, overage: Overage, entity: str | None, **call: Any,
) -> int:  # fmt: skip
    """Confirm what was actually spent; without amounts, the estimate. 0 releases it. TICKET may be - (read from stdin), or an id with
    --token. What no budget could cover is shown on stderr, and with --json as `uncovered`.

    \b
    Example:
      holdkit budgets confirm llm "$TICKET" tokens=812
    """
    actual = _amounts(amounts) if amounts else None
    with open_kernel(url, tenant) as hk:
        opened = _opened(hk, tenant, name)
        done = opened.confirm(
            hold_named(hold, token), actual, entity=entity, keep_rest=keep_rest, overage=overage, **call_of(call)
        )
        document = hold_document(hk, done)
    Output(in_json).table([document], HEADS, [row_of(done)])
    for budget, units in (document.uncovered or {}).items():
        click.echo(f"{units} of {budget} were not covered: the budget had no more", err=True)
    return OK


@budgets.command()
@name_argument
@click.argument("client")
@click.argument("budget")
@click.argument("total", type=int)
@click.option("--per", help="which allowance, if the budget has several, such as day")
@call_options
@tenant_options
def resize(
    url: str | None, tenant: str, in_json: bool, name: str, client: str, budget: str, total: int, per: str | None,
    **call: Any,
) -> int:  # fmt: skip
    """Change the total of a client's current window. Later windows begin with the total of the set.

    \b
    Example:
      holdkit budgets resize llm customer:7 tokens 2000000 --reason "one-time grant"
    """
    with open_kernel(url, tenant) as hk:
        pool = _opened(hk, tenant, name).resize(client, budget, total, per=per, **call_of(call))
        document = pool_now(pool.raw, time_of(hk), with_tenant=is_local(hk))
    row = [budget, *map(str, (pool.total, pool.held, pool.consumed, pool.available))]
    Output(in_json).table([document], ("budget", "total", "held", "consumed", "available"), [row])
    return OK


def _stored(hk: Kernel, tenant: str) -> Any:
    need_server()
    from ..server._sync.budget_sets import BudgetSets

    return BudgetSets(hk, tenant)


def _opened(hk: Opened, tenant: str, name: str) -> Budget:
    opened: Budget = _stored(hk, tenant).opened(name) if isinstance(hk, Kernel) else hk.budget(name)
    return opened


def _definition(hk: Opened, tenant: str, name: str) -> BudgetAnswer:
    if isinstance(hk, Kernel):
        return BudgetAnswer(name, _stored(hk, tenant).find(name).budgets, time_of(hk))
    return hk.budget(name).definition()


def _allowances(text: str) -> tuple[str, list[AllowanceBody]]:
    """Parse BUDGET=TOTAL/PER@ZONE,TOTAL/PER."""
    budget, _, rest = text.partition("=")
    listed: list[AllowanceBody] = []
    for one in rest.split(","):
        total, slash, per = one.partition("/")
        per, _, zone = per.partition("@")
        if not (budget and total.isdecimal() and slash and per):
            raise invalid(
                "budgets",
                "allowance_malformed",
                f"{text!r} must look like tokens=1000000/day or calls=60/minute,1000/day",
            )
        listed.append(AllowanceBody(total=int(total), per=per, zone=zone or None))
    return budget, listed


def _amounts(given: tuple[str, ...]) -> Spent:
    """Return a single amount, or amounts by budget."""
    if len(given) == 1 and given[0].isdecimal():
        return int(given[0])
    found: dict[str, int] = {}
    for one in given:
        budget, _, units = one.rpartition("=")
        if not budget or not units.isdecimal() or budget in found:
            raise invalid("amounts", "amounts_malformed", "must be one amount, or BUDGET=AMOUNT once for each budget")
        found[budget] = int(units)
    return found


def _print_sets(found: list[BudgetAnswer], in_json: bool) -> int:
    rows = [
        [one.name, budget, ", ".join(f"{a.total}/{a.per}" + (f"@{a.zone}" if a.zone else "") for a in listed)]
        for one in found
        for budget, listed in one.budgets.items()
    ]
    Output(in_json).table(found, ("set", "budget", "allowances"), rows)
    return OK
