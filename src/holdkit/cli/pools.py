"""``holdkit pools`` (list, show, create, resize, limit, free, remove, archive, unarchive; `line` is in `lines`)."""

from __future__ import annotations

import click

from ..wire.pools import pool_answer
from .arguments import POOL_HEADS, pool_row, print_pool, say_next
from .options import is_local, open_kernel, tenant_options
from .output import OK, Output
from .plain import plain


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
        [pool_answer(pool.raw, with_tenant=named) for pool in found], POOL_HEADS, [pool_row(pool) for pool in found]
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
        return print_pool(hk, hk.pool(pool), in_json)


@plain("create_pool", of=pools, create=True)
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
def create() -> None:
    """Create a pool. An id with // is below the pool before the last //, which must exist.

    \b
    Example:
      holdkit pools create gpu 8
      holdkit pools create venue 1000 --per-account 4
      holdkit pools create venue//stalls 600
    """


@plain("admin.resize_pool", of=pools)
@click.argument("pool")
@click.argument("total", type=int)
def resize() -> None:
    """Change a pool's total, but not below the units in use.

    \b
    Example:
      holdkit pools resize gpu 16 --reason "second rack"
    """


@plain("admin.limit_pool", of=pools)
@click.argument("pool")
@click.argument("per_account", metavar="UNITS|none", callback=lambda _context, _argument, given: _units(given))
def limit() -> None:
    """Change the most units of a pool that one account may wait for, hold and have confirmed together. What accounts have already
    is not affected.

    \b
    Example:
      holdkit pools limit show:42 4
      holdkit pools limit show:42 none --reason "the rest is for everybody"
    """


@plain("admin.free", of=pools)
@click.argument("pool")
@click.argument("quantity", metavar="UNITS", type=int)
@click.option("--account", help="whose units  [default: those of holds without an account]")
def free() -> None:
    """Make consumed units available whose holds are no longer kept; needs --reason, and is recorded as forced.

    \b
    Example:
      holdkit pools free show:42 2 --reason "refund of order 9"
    """


@plain("admin.remove_pool", of=pools)
@click.argument("pool")
def remove() -> None:
    """Remove a pool permanently, if none of it is held or consumed; prints its last state.

    \b
    Example:
      holdkit pools remove gpu --reason "sold"
    """


@plain("admin.archive_pool", of=pools)
@click.argument("pool")
def archive() -> None:
    """Archive a pool: it grants no new holds; existing holds are unaffected.

    \b
    Example:
      holdkit pools archive show:42 --reason "the show is over"
    """


@plain("admin.unarchive_pool", of=pools)
@click.argument("pool")
def unarchive() -> None:
    """Reopen an archived pool for new holds.

    \b
    Example:
      holdkit pools unarchive show:42
    """


def _units(given: str) -> int | None:
    if given != "none" and not given.isdecimal():
        raise click.UsageError("the limit must be a number of units, or none")
    return None if given == "none" else int(given)
