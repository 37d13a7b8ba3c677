"""``holdkit admin tenants``: list, show, disable, enable, quota, delete. ``holdkit admin export --tenant`` writes one to
a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import click

from ..engines.progress import Progress
from ..errors import InvalidRequest
from ..faces._sync.kernel import Kernel
from ..kernel.arguments import Call
from ..wire.tenants import DeletedAnswer, Quota, TenantAnswer
from .arguments import goes_on
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
from .output import OK, Output, as_json, progress_bar
from .serve import need_server

if TYPE_CHECKING:
    from ..client._sync.tenants import RemoteTenants
    from ..kernel.reports import StorageUsage
    from ..server import Keys
    from ..server._sync.tenants import Tenants

HEADS = ("tenant", "state", "keys", "rows", "bytes", "quota", "note")


@click.group()
def tenants() -> None:
    """List, limit, disable and delete tenants. One exists as soon as it has a pool or an API key. The default tenant has
    no name, and is not listed.

    \b
    Example:
      holdkit admin tenants list --url sqlite:///holds.db
      holdkit admin tenants disable acme --reason unpaid
    """


class _Store:
    """The tenants of a database."""

    def __init__(self, hk: Kernel, keys: Keys, store: Tenants) -> None:
        self._hk, self._keys, self._store = hk, keys, store

    def list(self, after: str, limit: int, usage: bool) -> list[TenantAnswer]:
        active: dict[str, int] = {}
        for one in self._keys.listed():
            active[one.tenant] = active.get(one.tenant, 0) + (one.state == "active")
        names = self._store.names([name for name in active if name], after=after, limit=limit)
        counted: dict[str, StorageUsage] = {}
        if usage:
            from ..kernel._sync.usage import UsageCounter

            counter = UsageCounter(self._hk._executor)
            counter.catch_up()
            counted = {name: counter.usage(name) for name in names}
        return [self._answer(name, counted.get(name), active.get(name, 0)) for name in names]

    def get(self, name: str) -> TenantAnswer:
        tenant = self._hk.tenant(name)
        known = self._keys.listed(tenant=name) or self._store.has_pools(name)
        if not known and name not in [one.name for one in self._store.stored()]:
            why = "there is no such tenant: it has no pool, no API key and no record"
            raise InvalidRequest(why, field="tenant", code="tenant_not_found")
        return self._answer(name, tenant.admin.usage())

    def set_state(self, name: str, state: Literal["active", "disabled"], call: Call) -> TenantAnswer:
        self._store.set_state(name, state, **call)
        return self._answer(name)

    def set_quota(self, name: str, quota: Quota | None, call: Call) -> TenantAnswer:
        self._store.set_quota(name, quota, **call)
        return self._answer(name)

    def delete(self, name: str, confirm: str, progress: Progress, call: Call) -> DeletedAnswer:
        from ..server._sync.deletion import Deletion

        deletion = Deletion(self._hk, self._keys, self._store, name, **call)
        deletion.check(confirm)
        return deletion.run(progress)

    def _answer(self, name: str, usage: StorageUsage | None = None, keys: int | None = None) -> TenantAnswer:
        from ..server.tenants import tenant_answer

        active = sum(one.state == "active" for one in self._keys.listed(tenant=name)) if keys is None else keys
        found = tenant_answer(self._store.find(name), active, usage)
        found.server_time = time_of(self._hk)
        return found


class _OnServer:
    """The tenants of a server, for an operator's key."""

    def __init__(self, admin: RemoteTenants) -> None:
        self._admin = admin

    def list(self, after: str, limit: int, usage: bool) -> list[TenantAnswer]:
        return self._admin.list(after=after, limit=limit, usage=usage)

    def get(self, name: str) -> TenantAnswer:
        return self._admin.get(name)

    def set_state(self, name: str, state: Literal["active", "disabled"], call: Call) -> TenantAnswer:
        return (self._admin.enable if state == "active" else self._admin.disable)(name, **call)

    def set_quota(self, name: str, quota: Quota | None, call: Call) -> TenantAnswer:
        return self._admin.set_quota(name, quota, **call)

    def delete(self, name: str, confirm: str, progress: Progress, call: Call) -> DeletedAnswer:
        return self._admin.delete(name, confirm=confirm, progress=progress, **call)


@contextmanager
def _open(url: str | None) -> Iterator[_Store | _OnServer]:
    if is_server(chosen_url(url)):
        with open_kernel(url) as client:
            assert not isinstance(client, Kernel)
            yield _OnServer(client.server.tenants)
        return
    need_server()
    from ..server import Keys
    from ..server._sync.tenants import Tenants
    from ..server.settings import secret_from_environment

    with open_database(url) as hk:
        keys = Keys(hk, pepper=secret_from_environment())
        yield _Store(hk, keys, Tenants(hk, keys))


def _show(found: list[TenantAnswer], in_json: bool) -> int:
    Output(in_json).table(found, HEADS, [_row(one) for one in found])
    return OK


def _row(tenant: TenantAnswer) -> list[str]:
    usage, quota = tenant.usage, tenant.quota
    return [
        tenant.name,
        tenant.state,
        str(tenant.keys),
        "" if usage is None else str(usage.rows),
        "" if usage is None else str(usage.bytes),
        "" if quota is None else f"{quota.rows or 'any'} rows, {quota.bytes or 'any'} bytes",
        tenant.note or "",
    ]


@tenants.command("list")
@click.option("--after", default="", help="start after this tenant")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@click.option("--usage", is_flag=True, help="count what each has stored: reads the whole journal once")
@url_option
@key_option
@as_json
def list_tenants(url: str | None, in_json: bool, after: str, limit: int, usage: bool) -> int:
    """List the tenants that have a pool, an API key, a quota or a state of their own, by name.

    \b
    Example:
      holdkit admin tenants list --usage
    """
    with _open(url) as here:
        found = here.list(after, limit, usage)
    goes_on(found, limit, found[-1].name if found else "")
    return _show(found, in_json)


@tenants.command()
@click.argument("tenant")
@url_option
@key_option
@as_json
def show(url: str | None, in_json: bool, tenant: str) -> int:
    """Show one tenant, and count what it has stored.

    \b
    Example:
      holdkit admin tenants show acme
    """
    with _open(url) as here:
        return _show([here.get(tenant)], in_json)


@tenants.command()
@click.argument("tenant")
@call_options
@url_option
@key_option
@as_json
def disable(url: str | None, in_json: bool, tenant: str, **call: Any) -> int:
    """Admit no API key of a tenant, within a second on every server. Its holds go on expiring.

    \b
    Example:
      holdkit admin tenants disable acme --reason unpaid
    """
    with _open(url) as here:
        return _show([here.set_state(tenant, "disabled", call_of(call))], in_json)


@tenants.command()
@click.argument("tenant")
@call_options
@url_option
@key_option
@as_json
def enable(url: str | None, in_json: bool, tenant: str, **call: Any) -> int:
    """Admit the API keys of a tenant again.

    \b
    Example:
      holdkit admin tenants enable acme
    """
    with _open(url) as here:
        return _show([here.set_state(tenant, "active", call_of(call))], in_json)


@tenants.command("quota")
@click.argument("tenant")
@click.option("--bytes", "size", type=click.IntRange(1), help="bytes that it may store  [default: any number]")
@click.option("--rows", type=click.IntRange(1), help="rows that it may store  [default: any number]")
@click.option("--default", "reset", is_flag=True, help="the quota of the server's settings instead of its own")
@call_options
@url_option
@key_option
@as_json
def set_quota(
    url: str | None, in_json: bool, tenant: str, size: int | None, rows: int | None, reset: bool, **call: Any
) -> int:
    """Give a tenant a storage quota of its own; '' is the default tenant. A full quota never refuses confirm, release, extend or return.

    \b
    Example:
      holdkit admin tenants quota acme --bytes 1000000000 --rows 1000000
      holdkit admin tenants quota acme --default
    """
    if reset and (size is not None or rows is not None):
        raise click.UsageError("--default takes neither --bytes nor --rows")
    with _open(url) as here:
        quota = None if reset else Quota(bytes=size, rows=rows)
        return _show([here.set_quota(tenant, quota, call_of(call))], in_json)


@tenants.command()
@click.argument("tenant")
@click.option("--confirm", required=True, metavar="NAME", help="the tenant's name once more")
@call_options
@url_option
@key_option
@as_json
def delete(url: str | None, in_json: bool, tenant: str, confirm: str, **call: Any) -> int:
    """Delete a disabled tenant: end its holds, remove its pools, records, webhooks and API keys. Its journal stays. A deletion that
    was interrupted is started again.

    \b
    Example:
      holdkit admin export --tenant acme acme.jsonl
      holdkit admin tenants disable acme
      holdkit admin tenants delete acme --confirm acme
    """
    with _open(url) as here, progress_bar("deleting") as progress:
        gone = here.delete(tenant, confirm, progress, call_of(call))
    Output(in_json).write(
        gone,
        f"{tenant} is deleted: {gone.holds} holds, {gone.pools} pools, {gone.records} records, {gone.keys} API keys",
    )
    return OK
