"""``holdkit mcp``: an MCP server over stdio, through which an assistant reserves within limits.

It ends when stdin ends, or by a signal; either way it releases what the session still holds. The thread that reads stdin cannot be
interrupted, so that after a signal nothing waits for it: the process ends by the signal itself, once the holds are released.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

import click

from .options import chosen_url, is_server, key_given, must_exist, tenant_options
from .output import OK

STOPPING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
            stopped_by = await _until_stopped(mcp_server(session).run_stdio_async())
        if stopped_by is not None:
            _end_by(stopped_by)

    asyncio.run(serve())
    return OK


async def _until_stopped(serving: Coroutine[Any, Any, None]) -> signal.Signals | None:
    """Serve until stdin ends, or until a signal arrives: which one."""
    loop = asyncio.get_running_loop()
    signalled: asyncio.Future[signal.Signals] = loop.create_future()

    def stop(number: signal.Signals) -> None:
        if signalled.done():  # the second one: not even the releases are waited for
            _end_by(number)
        signalled.set_result(number)

    for number in STOPPING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            with suppress(NotImplementedError):  # on Windows
                loop.add_signal_handler(number, stop, number)
    task = loop.create_task(serving)
    either: set[asyncio.Future[Any]] = {task, signalled}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    if task.done():
        signalled.cancel()
        task.result()
        return None
    task.cancel()
    await asyncio.sleep(0)  # cancels the calls in work; the thread that reads stdin stays
    return signalled.result()


def _end_by(number: signal.Signals) -> None:
    """End the process as the signal does by itself."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
