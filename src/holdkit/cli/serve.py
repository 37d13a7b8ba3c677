"""``holdkit serve`` and ``holdkit keys``: the HTTP server and its API keys."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import click

from ..errors import EngineError
from .documents import key_document
from .options import chosen_url, database_options, open_kernel, url_option
from .output import OK, Output, as_json

if TYPE_CHECKING:
    from ..server import KeyInfo, Keys

HEADS = ("key", "name", "scope", "tenant", "state", "expires")


def need_server() -> None:
    """Check that the packages of the `server` extra are installed."""
    missing = [name for name in ("starlette", "uvicorn", "sse_starlette") if find_spec(name) is None]
    if missing:
        raise EngineError(f"the server needs {', '.join(missing)}: pip install 'holdkit[server]'")


@click.command()
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="other than loopback needs API keys, and TLS or a proxy"
)
@click.option("--port", type=click.IntRange(0, 65_535), default=8420, show_default=True)
@click.option("--open", "is_open", is_flag=True, help="accept requests without an API key; on loopback only")
@click.option("--certificate", type=click.Path(exists=True, dir_okay=False), help="TLS certificate, a PEM file")
@click.option("--private-key", type=click.Path(exists=True, dir_okay=False), help="TLS private key")
@click.option("--behind-proxy", is_flag=True, help="a proxy in front of the server provides TLS")
@click.option(
    "--state",
    type=click.Path(exists=True, file_okay=False, writable=True),
    help="directory outside the database that records which webhooks were sent",
)
@click.option(
    "--pool-size", type=click.IntRange(4, 1_000), help="maximum number of PostgreSQL connections  [default: 30]"
)
@database_options
def serve(
    target: str | None,
    url: str | None,
    in_json: bool,
    is_open: bool,
    state: str | None,
    pool_size: int | None,
    **more: Any,
) -> int:
    """Serve the HTTP API and the dashboard until SIGTERM or Ctrl-C; running requests are finished. Also runs the sweeper.

    \b
    Example:
      holdkit keys make checkout --url sqlite:///holds.db
      holdkit serve sqlite:///holds.db --port 8420
    """
    need_server()
    from ..server import Settings
    from ..server import serve as run_server
    from ..server.settings import Delivery
    from .documents import ServeDocument

    def started(address: str) -> None:
        Output(in_json).write(ServeDocument(address), f"holdkit listens on {address}")

    settings = Settings(open=is_open, pool_size=pool_size, webhooks=Delivery(state=state))
    run_server(chosen_url(url, target), settings=settings, started=started, **more)
    return OK


@click.group()
def keys() -> None:
    """API keys of the HTTP server. A key is shown once, when it is created.

    \b
    Example:
      holdkit keys make checkout --scope hold
    """


@contextmanager
def _keys(url: str | None, *, create: bool = False) -> Iterator[Keys]:
    need_server()
    from ..server import Keys
    from ..server.settings import secret_from_environment

    with open_kernel(url, create=create) as hk:
        yield Keys(hk, pepper=secret_from_environment())


@keys.command()
@click.argument("name")
@click.option("--scope", type=click.Choice(["read", "hold", "admin"]), default="hold", show_default=True)
@click.option("--tenant", default="", help="tenant that the key gives access to")
@click.option("--ttl", help="time until it expires, such as 30d  [default: never]")
@url_option
@as_json
def make(url: str | None, in_json: bool, name: str, scope: Any, tenant: str, ttl: str | None) -> int:
    """Create an API key. Its text is printed only this once.

    \b
    Example:
      holdkit keys make checkout --scope hold --ttl 365d
    """
    with _keys(url, create=True) as store:
        new = store.make(name, scope=scope, tenant=tenant, ttl=ttl)
    Output(in_json).write(key_document(new.info, new.text), new.text)
    return OK


@keys.command("list")
@click.option("--tenant", default=None, help="only keys of this tenant")
@url_option
@as_json
def list_keys(url: str | None, in_json: bool, tenant: str | None) -> int:
    """List all API keys, without their secrets.

    \b
    Example:
      holdkit keys list
    """
    with _keys(url) as store:
        found = store.listed(tenant=tenant)
    Output(in_json).table([key_document(one) for one in found], HEADS, [_row(one) for one in found])
    return OK


@keys.command()
@click.argument("key")
@url_option
@as_json
def revoke(url: str | None, in_json: bool, key: str) -> int:
    """Revoke an API key, within a second on every server.

    \b
    Example:
      holdkit keys revoke abcdefgh23456723
    """
    with _keys(url) as store:
        info = store.revoke(key)
    Output(in_json).table([key_document(info)], HEADS, [_row(info)])
    return OK


@keys.command()
@click.argument("key")
@click.option("--grace", help="how long the old secret stays valid  [default: the server's setting]")
@url_option
@as_json
def rotate(url: str | None, in_json: bool, key: str, grace: str | None) -> int:
    """Give an API key a new secret; the old one stays valid for a while.

    \b
    Example:
      holdkit keys rotate abcdefgh23456723 --grace 1h
    """
    with _keys(url) as store:
        new = store.rotate(key) if grace is None else store.rotate(key, grace=grace)
    Output(in_json).write(key_document(new.info, new.text), new.text)
    return OK


def _row(key: KeyInfo) -> list[str]:
    return [key.id, key.name, key.scope, key.tenant, key.state, key.expires_at or "-"]
