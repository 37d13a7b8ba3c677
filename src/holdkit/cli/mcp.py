"""``holdkit mcp``: an MCP server over stdio, through which an assistant reserves within limits."""

from __future__ import annotations

import asyncio
import sys

import click

from .options import chosen_url, is_server, key_given, must_exist, tenant_options
from .output import OK


@click.command()
@click.option("--pool", "pools", multiple=True, help="a pool that the assistant may use; NAME* for all that begin so")
@click.option(
    "--budget", "budgets", multiple=True, help="a stored set of budgets that it may use (holdkit budgets define)"
)
@click.option("--client", default="assistant", show_default=True, help="whose budgets it spends")
@click.option("--account", help="the account for which it holds units: pools may limit what one account has")
@click.option(
    "--limit-pool", help="a pool whose total is the most units that it can hold at a time, of all pools together"
)
@click.option("--max-ttl", default="15m", show_default=True, help="the longest time of a hold, from now")
@click.option("--max-age", default="24h", show_default=True, help="the longest time of a hold with all its extensions")
@click.option("--read-only", is_flag=True, help="it may look, and hold nothing")
@click.option("--name", default="mcp", show_default=True, help="its name in the journal: the actor api_client:NAME")
@tenant_options
def mcp(
    url: str | None, tenant: str, in_json: bool, pools: tuple[str, ...], budgets: tuple[str, ...], client: str,
    account: str | None, limit_pool: str | None, max_ttl: str, max_age: str, read_only: bool, name: str,
) -> int:  # fmt: skip
    """Serve an assistant over stdin and stdout, by the Model Context Protocol, until stdin ends; then release what it still holds.

    The assistant can use only what the options name, within limits that no tool can change. On a server (--url http://…, --key), the
    limits of the API key hold as well.

    \b
    Example:
      holdkit pools create assistant-limit 4
      holdkit mcp --url sqlite:///holds.db --pool 'gpu-*' --limit-pool assistant-limit --max-ttl 30m
    """
    del in_json  # stdout belongs to the protocol; an error is reported as everywhere
    from ..contrib.mcp import Policy, mcp_server  # without the package: an error that names the extra
    from ..contrib.mcp.session import session_on

    given = chosen_url(url)
    if is_server(given) and tenant:
        raise click.UsageError("--tenant goes with a database: a server knows the tenant by the API key (--key)")
    if not is_server(given):
        must_exist(given)
    policy = Policy(pools=pools, budgets=budgets, client=client, account=account, limit_pool=limit_pool, max_ttl=max_ttl,
                    max_age=max_age, read_only=read_only)  # fmt: skip

    if sys.stdin.isatty():
        click.echo(
            "holdkit mcp: waiting for an assistant on stdin; its program starts this command (Ctrl-D ends it)", err=True
        )

    async def serve() -> None:
        async with session_on(given, policy, key=key_given(), tenant=tenant, name=name) as session:
            await mcp_server(session).run_stdio_async()

    asyncio.run(serve())
    return OK
