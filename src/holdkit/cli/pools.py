"""``holdkit pools`` (list, show, create, resize, limit, free, remove, archive, unarchive; `line` is in `lines`)."""

from __future__ import annotations

from typing import Any

import click

from ..core.model import Line
from ..kernel.pool import Pool
from ..wire.pools import pool_answer, pool_now
from .arguments import say_next
from .options import Opened, call_of, call_options, forced_call, is_local, open_kernel, tenant_options, time_of
from .output import OK, Output

HEADS = ("pool", "total", "held", "consumed", "available", "")


@click.group()
def pools() -> None:
    """Pools: limited quantities of something.

    \b
    Example:
      holdkit pools list --url sqlite:///holds.db
    """


@pools.command("list")
@click.option(
    "--prefix", default="", help="only ids that begin with this; ~ shows the pools of claims, items and other faces"
)
@click.option("--below", metavar="POOL", help="only the pools directly below this one")
@click.option("--archived", is_flag=True, help="include archived pools")
@click.option("--after", default="", help="start after this id")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@tenant_options
def list_pools(
    url: str | None, tenant: str, in_json: bool, prefix: str, below: str | None, archived: bool, after: str, limit: int
) -> int:
    """List pools in order of id, with their held, consumed and available units.

    \b
    Example:
      holdkit pools list --prefix show: --json
      holdkit pools list --below venue --archived
    """
    with open_kernel(url, tenant) as hk:
        found, named = hk.pools(prefix, below=below, archived=archived, after=after, limit=limit), is_local(hk)
    Output(in_json).table(
        [pool_answer(pool.raw, with_tenant=named) for pool in found], HEADS, [_row(pool) for pool in found]
    )
    say_next(found.next)
    return OK


@pools.command()
@click.argument("pool")
@tenant_options
def show(url: str | None, tenant: str, in_json: bool, pool: str) -> int:
    """Show one pool.

    \b
    Example:
      holdkit pools show gpu
    """
    with open_kernel(url, tenant) as hk:
        _print(hk, hk.pool(pool), in_json)
    return OK


@pools.command()
@click.argument("pool")
@click.argument("total", type=int)
@click.option("--exist-ok", is_flag=True, help="accept an existing pool, and leave it unchanged")
@click.option("--per-account", type=int, help="the most units that one account may have  [default: no limit]")
@click.option(
    "--line",
    type=click.Choice(["strict", "skip"]),
    default="strict",
    show_default=True,
    help="skip: whoever fits of the first 100 in line is served, and large requests may wait for ever",
)
@call_options
@tenant_options
def create(
    url: str | None, tenant: str, in_json: bool, pool: str, total: int, exist_ok: bool, per_account: int | None,
    line: Line, **call: Any,
) -> int:  # fmt: skip
    """Create a pool. An id with // is below the pool before the last //, which must exist.

    \b
    Example:
      holdkit pools create gpu 8
      holdkit pools create venue 1000 --per-account 4
      holdkit pools create venue//stalls 600
    """
    with open_kernel(url, tenant, create=True) as hk:
        made = hk.create_pool(pool, total, exist_ok=exist_ok, per_account=per_account, line=line, **call_of(call))
        _print(hk, made, in_json)
    return OK


@pools.command()
@click.argument("pool")
@click.argument("total", type=int)
@call_options
@tenant_options
def resize(url: str | None, tenant: str, in_json: bool, pool: str, total: int, **call: Any) -> int:
    """Change a pool's total, but not below the units in use.

    \b
    Example:
      holdkit pools resize gpu 16 --reason "second rack"
    """
    with open_kernel(url, tenant) as hk:
        _print(hk, hk.admin.resize_pool(pool, total, **call_of(call)), in_json)
    return OK


@pools.command()
@click.argument("pool")
@click.argument("per_account", metavar="UNITS|none")
@call_options
@tenant_options
def limit(url: str | None, tenant: str, in_json: bool, pool: str, per_account: str, **call: Any) -> int:
    """Change the most units of a pool that one account may wait for, hold and have confirmed together. What accounts have already
    is not affected.

    \b
    Example:
      holdkit pools limit show:42 4
      holdkit pools limit show:42 none --reason "the rest is for everybody"
    """
    if per_account != "none" and not per_account.isdecimal():
        raise click.UsageError("the limit must be a number of units, or none")
    with open_kernel(url, tenant) as hk:
        limited = hk.admin.limit_pool(pool, None if per_account == "none" else int(per_account), **call_of(call))
        _print(hk, limited, in_json)
    return OK


@pools.command()
@click.argument("pool")
@click.argument("units", type=int)
@click.option("--account", help="whose units  [default: those of holds without an account]")
@call_options
@tenant_options
def free(url: str | None, tenant: str, in_json: bool, pool: str, units: int, account: str | None, **call: Any) -> int:
    """Make consumed units available whose holds are no longer kept; needs --reason, and is recorded as forced.

    \b
    Example:
      holdkit pools free show:42 2 --reason "refund of order 9"
    """
    with open_kernel(url, tenant) as hk:
        freed = hk.admin.free(pool, units, account=account, **forced_call(call))
        _print(hk, freed, in_json)
    return OK


@pools.command()
@click.argument("pool")
@call_options
@tenant_options
def remove(url: str | None, tenant: str, in_json: bool, pool: str, **call: Any) -> int:
    """Remove a pool permanently, if none of it is held or consumed; prints its last state.

    \b
    Example:
      holdkit pools remove gpu --reason "sold"
    """
    with open_kernel(url, tenant) as hk:
        _print(hk, hk.admin.remove_pool(pool, **call_of(call)), in_json)
    return OK


@pools.command()
@click.argument("pool")
@call_options
@tenant_options
def archive(url: str | None, tenant: str, in_json: bool, pool: str, **call: Any) -> int:
    """Archive a pool: it grants no new holds; existing holds are unaffected.

    \b
    Example:
      holdkit pools archive show:42 --reason "the show is over"
    """
    with open_kernel(url, tenant) as hk:
        _print(hk, hk.admin.archive_pool(pool, **call_of(call)), in_json)
    return OK


@pools.command()
@click.argument("pool")
@call_options
@tenant_options
def unarchive(url: str | None, tenant: str, in_json: bool, pool: str, **call: Any) -> int:
    """Reopen an archived pool for new holds.

    \b
    Example:
      holdkit pools unarchive show:42
    """
    with open_kernel(url, tenant) as hk:
        _print(hk, hk.admin.unarchive_pool(pool, **call_of(call)), in_json)
    return OK


def _row(pool: Pool) -> list[str]:
    flags = ((f"{pool.waiting} waiting", pool.waiting), ("over", pool.over), ("archived", pool.archived))
    return [
        pool.id,
        str(pool.total),
        str(pool.held),
        str(pool.consumed),
        str(pool.available),
        ", ".join(word for word, applies in flags if applies),
    ]


def _print(hk: Opened, pool: Pool, in_json: bool) -> None:
    Output(in_json).table([pool_now(pool.raw, time_of(hk), with_tenant=is_local(hk))], HEADS, [_row(pool)])
