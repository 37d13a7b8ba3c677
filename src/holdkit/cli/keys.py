"""``holdkit keys``: the API keys of the HTTP server, in its database or by calling it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ..faces._sync.kernel import Kernel
from ..kernel.arguments import Call
from ..wire.keys import KeyAnswer, KeyInfo
from .arguments import interval, seconds
from .options import (
    call_of,
    call_options,
    chosen_url,
    is_server,
    key_option,
    open_database,
    open_kernel,
    time_of,
    url_option,
)
from .output import OK, Output, as_json
from .serve import need_server

if TYPE_CHECKING:
    from ..client._sync.keys import RemoteKeys
    from ..server import Keys

HEADS = ("key", "name", "scope", "tenant", "state", "expires", "used", "pools", "verbs")


def key_options(function: Any) -> Any:
    """Add the options of commands on API keys."""
    return url_option(key_option(as_json(function)))


class _Stored:
    """The API keys of all tenants, in a database."""

    def __init__(self, hk: Kernel, keys: Keys) -> None:
        self._hk, self._keys = hk, keys

    def make(self, name: str, scope: Any, tenant: str | None, **asked: Any) -> KeyAnswer:
        new = self._keys.make(name, scope=scope, tenant=tenant or "", **asked)
        return KeyAnswer(new.info, new.text, time_of(self._hk))

    def list(self, tenant: str | None) -> list[KeyInfo]:
        return self._keys.listed(tenant=tenant)

    def rotate(self, key: str, grace: str | None, call: Call) -> KeyAnswer:
        rotate = self._keys.rotate
        new = rotate(key, **call) if grace is None else rotate(key, grace=interval(grace), **call)
        return KeyAnswer(new.info, new.text, time_of(self._hk))

    def revoke(self, key: str, call: Call) -> KeyInfo:
        return self._keys.revoke(key, **call)


class _OnServer:
    """The API keys of the tenant whose key was given."""

    def __init__(self, keys: RemoteKeys) -> None:
        self._keys = keys

    def make(self, name: str, scope: Any, tenant: str | None, **asked: Any) -> KeyAnswer:
        _own(tenant)
        return self._keys.make(name, scope=scope, **asked)

    def list(self, tenant: str | None) -> list[KeyInfo]:
        _own(tenant)
        return self._keys.list()

    def rotate(self, key: str, grace: str | None, call: Call) -> KeyAnswer:
        rotate = self._keys.rotate
        return rotate(key, **call) if grace is None else rotate(key, grace=interval(grace), **call)

    def revoke(self, key: str, call: Call) -> KeyInfo:
        return self._keys.revoke(key, **call)


def _own(tenant: str | None) -> None:
    if tenant:
        raise click.UsageError("--tenant goes with a database: a server knows the tenant by the API key (--key)")


@contextmanager
def _open(url: str | None, *, create: bool = False) -> Iterator[_Stored | _OnServer]:
    if is_server(chosen_url(url)):
        with open_kernel(url) as client:
            assert not isinstance(client, Kernel)
            yield _OnServer(client.server.keys)
        return
    need_server()
    from ..server import Keys
    from ..server.settings import secret_from_environment

    with open_database(url, create=create) as hk:
        yield _Stored(hk, Keys(hk, pepper=secret_from_environment()))


@click.group()
def keys() -> None:
    """API keys of the HTTP server. A key is shown once, when it is created.

    \b
    Example:
      holdkit keys make checkout --scope hold
    """


@keys.command()
@click.argument("name")
@click.option("--scope", type=click.Choice(["read", "hold", "admin"]), default="hold", show_default=True)
@click.option("--tenant", default="", help="tenant that the key gives access to")
@click.option("--ttl", help="time until it expires, such as 30d  [default: never]")
@click.option("--pools", multiple=True, metavar="PREFIX", help="limit it to pools that begin so; may be repeated")
@click.option("--verbs", default="", help="limit it to these verbs, such as hold,confirm,read")
@call_options
@key_options
def make(
    url: str | None,
    in_json: bool,
    name: str,
    scope: Any,
    tenant: str,
    ttl: str | None,
    pools: tuple[str, ...],
    verbs: str,
    **call: Any,
) -> int:
    """Create an API key. Its text is printed only this once.

    \b
    Example:
      holdkit keys make checkout --scope hold --ttl 365d
      holdkit keys make box-office --pools show: --verbs hold,confirm,release
    """
    wanted = [verb.strip() for verb in verbs.split(",") if verb.strip()]
    with _open(url, create=True) as store:
        made = store.make(name, scope, tenant, ttl=seconds(ttl), pools=pools, verbs=wanted, **call_of(call))
    Output(in_json).write(made, made.key)
    return OK


@keys.command("list")
@click.option("--tenant", default=None, help="only keys of this tenant")
@key_options
def list_keys(url: str | None, in_json: bool, tenant: str | None) -> int:
    """List all API keys, without their secrets.

    \b
    Example:
      holdkit keys list
    """
    with _open(url) as store:
        found = store.list(tenant)
    Output(in_json).table(found, HEADS, [_row(one) for one in found])
    return OK


@keys.command()
@click.argument("key")
@call_options
@key_options
def revoke(url: str | None, in_json: bool, key: str, **call: Any) -> int:
    """Revoke an API key, within a second on every server.

    \b
    Example:
      holdkit keys revoke abcdefgh23456723
    """
    with _open(url) as store:
        info = store.revoke(key, call_of(call))
    Output(in_json).table([info], HEADS, [_row(info)])
    return OK


@keys.command()
@click.argument("key")
@click.option("--grace", help="how long the old secret stays valid  [default: the server's setting]")
@call_options
@key_options
def rotate(url: str | None, in_json: bool, key: str, grace: str | None, **call: Any) -> int:
    """Give an API key a new secret; the old one stays valid for a while.

    \b
    Example:
      holdkit keys rotate abcdefgh23456723 --grace 1h
    """
    with _open(url) as store:
        new = store.rotate(key, grace, call_of(call))
    Output(in_json).write(new, new.key)
    return OK


def _row(key: KeyInfo) -> list[str]:
    return [
        key.id,
        key.name,
        key.scope,
        key.tenant,
        key.state,
        "-" if key.expires_at is None else f"{key.expires_at:%Y-%m-%d %H:%M:%S}",
        "-" if key.used_at is None else f"{key.used_at:%Y-%m-%d %H:%M:%S}",
        " ".join(key.pools) or "-",
        " ".join(key.verbs) or "-",
    ]
