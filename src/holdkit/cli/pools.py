"""``holdkit pools``: list, show, create, resize, return, remove, archive, unarchive; ``holdkit tenants``: whose there are."""

from __future__ import annotations

from typing import Any

import click

from ..core.model import Pool
from .documents import TenantDocument, pool_document
from .options import call_of, call_options, kernel, of_tenant, url_option
from .output import FINE, Output, as_json

HEADS = ("pool", "total", "held", "consumed", "available", "")


@click.group()
def pools() -> None:
    """Pools: bounded amounts of something scarce.

    \b
    Example:
      holdkit pools list --url sqlite:///holds.db
    """


@pools.command("list")
@click.option("--prefix", default="", help="only ids that begin so; ~ shows the pools behind faces")
@click.option("--archived", is_flag=True, help="those that are archived, too")
@click.option("--after", default="", help="go on behind this id")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@of_tenant
def list_pools(url: str | None, tenant: str, in_json: bool, prefix: str, archived: bool, after: str, limit: int) -> int:
    """Pools in order of id, with what is held, consumed and available.

    \b
    Example:
      holdkit pools list --prefix show: --json
    """
    with kernel(url, tenant) as hk:
        found = hk.pools(prefix, archived=archived, after=after, limit=limit)
    Output(in_json).table([pool_document(pool) for pool in found], HEADS, [_row(pool) for pool in found])
    return FINE


@pools.command()
@click.argument("pool")
@of_tenant
def show(url: str | None, tenant: str, in_json: bool, pool: str) -> int:
    """One pool.

    \b
    Example:
      holdkit pools show gpu
    """
    with kernel(url, tenant) as hk:
        _tell(hk.pool(pool), in_json)
    return FINE


@pools.command()
@click.argument("pool")
@click.argument("total", type=int)
@click.option("--exist-ok", is_flag=True, help="one that is there already is fine, and stays as it is")
@call_options
@of_tenant
def create(url: str | None, tenant: str, in_json: bool, pool: str, total: int, exist_ok: bool, **call: Any) -> int:
    """Make a pool with nothing held.

    \b
    Example:
      holdkit pools create gpu 8
    """
    with kernel(url, tenant, create=True) as hk:
        _tell(hk.create_pool(pool, total, exist_ok=exist_ok, **call_of(call)), in_json)
    return FINE


@pools.command()
@click.argument("pool")
@click.argument("total", type=int)
@call_options
@of_tenant
def resize(url: str | None, tenant: str, in_json: bool, pool: str, total: int, **call: Any) -> int:
    """Change a pool's total, never under what is in use.

    \b
    Example:
      holdkit pools resize gpu 16 --reason "second rack"
    """
    with kernel(url, tenant) as hk:
        _tell(hk.resize_pool(pool, total, **call_of(call)), in_json)
    return FINE


@pools.command("return")
@click.argument("pool")
@click.argument("units", type=int)
@call_options
@of_tenant
def return_(url: str | None, tenant: str, in_json: bool, pool: str, units: int, **call: Any) -> int:
    """Consumed units whose holds are kept no longer become available again; needs --reason, and is journaled as forced.

    \b
    Example:
      holdkit pools return show:42 2 --reason "refund of order 9"
    """
    with kernel(url, tenant) as hk:
        _tell(hk.return_units(pool=pool, quantity=units, force=True, **call_of(call)), in_json)
    return FINE


@pools.command()
@click.argument("pool")
@call_options
@of_tenant
def remove(url: str | None, tenant: str, in_json: bool, pool: str, **call: Any) -> int:
    """Take a pool away for good, if nothing of it is held or consumed; prints what it was.

    \b
    Example:
      holdkit pools remove gpu --reason "sold"
    """
    with kernel(url, tenant) as hk:
        _tell(hk.remove_pool(pool, **call_of(call)), in_json)
    return FINE


@pools.command()
@click.argument("pool")
@call_options
@of_tenant
def archive(url: str | None, tenant: str, in_json: bool, pool: str, **call: Any) -> int:
    """Grant nothing more on a pool; what is held or consumed goes on as ever.

    \b
    Example:
      holdkit pools archive show:42 --reason "the show is over"
    """
    with kernel(url, tenant) as hk:
        _tell(hk.archive_pool(pool, **call_of(call)), in_json)
    return FINE


@pools.command()
@click.argument("pool")
@call_options
@of_tenant
def unarchive(url: str | None, tenant: str, in_json: bool, pool: str, **call: Any) -> int:
    """Let an archived pool grant again.

    \b
    Example:
      holdkit pools unarchive show:42
    """
    with kernel(url, tenant) as hk:
        _tell(hk.unarchive_pool(pool, **call_of(call)), in_json)
    return FINE


@click.command()
@click.option("--after", default="", help="go on behind this one")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@url_option
@as_json
def tenants(url: str | None, in_json: bool, after: str, limit: int) -> int:
    """Names of the tenants that have pools, in order. The default tenant has no name, and is not listed.

    \b
    Example:
      holdkit tenants --url sqlite:///holds.db
    """
    with kernel(url) as hk:
        found = hk.tenants(after=after, limit=limit)
    Output(in_json).table([TenantDocument(name) for name in found], ("tenant",), [[name] for name in found])
    return FINE


def _row(pool: Pool) -> list[str]:
    return [
        pool.id,
        str(pool.total),
        str(pool.held),
        str(pool.consumed),
        str(pool.available),
        ", ".join(word for word, so in (("over", pool.over), ("archived", pool.archived)) if so),
    ]


def _tell(pool: Pool, in_json: bool) -> None:
    Output(in_json).table([pool_document(pool)], HEADS, [_row(pool)])
