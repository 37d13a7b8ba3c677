"""``holdkit admin search``: find a text in everything that has a name. ``holdkit admin stats``: pools, or a server, over time."""

from __future__ import annotations

import click

from ..faces._sync.kernel import Kernel
from ..faces.finding import Found
from ..kernel.arguments import span
from ..wire.claims import claim_answer
from ..wire.history import PoolHistories, ServerHistory
from ..wire.holds import hold_answer
from ..wire.pools import pool_answer
from ..wire.search import SearchAnswer
from .arguments import interval
from .options import Opened, is_local, open_kernel, tenant_options, time_of
from .output import OK, Output
from .serve import need_server


@click.command()
@click.argument("text")
@click.option("--limit", type=click.IntRange(1, 1_000), default=10, show_default=True, help="how many of each kind")
@tenant_options
def search(url: str | None, tenant: str, in_json: bool, text: str, limit: int) -> int:
    """Find TEXT in everything that has a name: pools, holds, entities, accounts, claims and items.

    \b
    Example:
      holdkit admin search order:9
      holdkit admin search 0199c0 --json
    """
    with open_kernel(url, tenant) as hk:
        found = hk.admin.search(text, limit=limit)
        document = _document(hk, found)
    rows = [["pool", one.id, f"{one.available} of {one.total} available"] for one in found.pools]
    rows += [["hold", one.id, f"{one.state} {one.entity or ''}".strip()] for one in found.holds]
    rows += [["entity", name, ""] for name in found.entities]
    rows += [["account", name, ""] for name in found.accounts]
    rows += [["claim", one.key, f"{one.state} {one.entity or ''}".strip()] for one in found.claims]
    rows += [["item", one.id, one.state] for one in found.items]
    Output(in_json).table([document], ("kind", "name", ""), rows)
    if not found.complete:
        click.echo("not all names of pools were searched: give more of the beginning of the name", err=True)
    return OK


def _document(hk: Opened, found: Found) -> SearchAnswer:
    named, now = is_local(hk), time_of(hk)
    return SearchAnswer(
        pools=[pool_answer(one.raw, with_tenant=named) for one in found.pools],
        holds=[hold_answer(one.raw, with_tenant=named) for one in found.holds],
        entities=found.entities,
        accounts=found.accounts,
        claims=[claim_answer(one, now, with_tenant=named) for one in found.claims],
        items=found.items,
        complete=found.complete,
        server_time=now,
    )


@click.command()
@click.argument("pools", metavar="[POOL]...", nargs=-1)
@click.option("--window", default="1h", show_default=True, help="how far back, such as 15m, 24h or 7d")
@tenant_options
def stats(url: str | None, tenant: str, in_json: bool, pools: tuple[str, ...], window: str) -> int:
    """Show use, grants and refusals of pools over time; without a pool, requests and latencies of one server, whose URL is needed. A
    server records them; - stands for a time without data.

    \b
    Example:
      holdkit admin stats show:42 --window 24h
      holdkit admin stats --json
    """
    with open_kernel(url, tenant) as hk:
        found = _of_pools(hk, tenant, pools, window) if pools else _of_server(hk, window)
    heads, rows = _pool_rows(found) if isinstance(found, PoolHistories) else _server_rows(found)
    Output(in_json).table([found], heads, rows)
    if not found.recording:
        click.echo("no statistics are recorded where tables are distributed", err=True)
    return OK


def _of_pools(hk: Opened, tenant: str, pools: tuple[str, ...], window: str) -> PoolHistories:
    if not isinstance(hk, Kernel):
        return hk.server.pool_histories(pools, window=interval(window))
    need_server()
    from ..server.handlers.history import pools_over_time, window_of

    store, now = hk._executor.engine.capabilities.rollups, hk._executor.now()
    chosen = window_of(span(interval(window), "window"), now, in_memory=False)
    return pools_over_time(store, None, chosen, tenant, pools, time_of(hk))


def _of_server(hk: Opened, window: str) -> ServerHistory:
    if isinstance(hk, Kernel):
        raise click.UsageError(
            "name a pool, or give the URL of a server: requests and latencies are in the memory of each server"
        )
    return hk.server.server_history(window=interval(window))


def _pool_rows(found: PoolHistories) -> tuple[tuple[str, ...], list[list[str]]]:
    names = ("total", "held", "consumed", "peak", "granted", "refused", "refused_units")
    rows = [
        [pool.pool, f"{at:%Y-%m-%d %H:%M:%S}", *(_shown(getattr(pool, name)[index]) for name in names)]
        for pool in found.pools
        for index, at in enumerate(found.at)
    ]
    return ("pool", "from", *(name.replace("_", " ") for name in names)), rows


def _server_rows(found: ServerHistory) -> tuple[tuple[str, ...], list[list[str]]]:
    names = ("requests", "errors", "queue", "p50", "p90", "p99")
    rows = [
        [f"{at:%Y-%m-%d %H:%M:%S}", *(_shown(getattr(found, name)[index]) for name in names)]
        for index, at in enumerate(found.at)
    ]
    return ("from", *names), rows


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
