"""Options that commands share, and what they select: the kernel of a database, or the client of a server. A command that only reads
creates nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

import click

from ..engines.port import Engine
from ..errors import EngineError, InvalidRequest
from ..faces._sync.kernel import Kernel
from ..faces.opening import connect
from ..kernel.arguments import Call, CallWithoutReason
from ..kernel.opening import open_engine, refuse_log, with_schema
from ..wire.fields import Time, at
from .output import as_json

if TYPE_CHECKING:
    from ..client import RemoteKernel

Opened: TypeAlias = "Kernel | RemoteKernel"
"""What a command works on: both have the same methods."""

_SCHEMA = "holdkit.schema"
"""The key of --schema in the command's context: it belongs to the URL, so no command takes it as an argument."""
_KEY = "holdkit.key"
"""That of --key."""


def _keep_schema(context: click.Context, _: click.Parameter, value: str | None) -> None:
    context.meta[_SCHEMA] = value


def _keep_key(context: click.Context, _: click.Parameter, value: str | None) -> None:
    context.meta[_KEY] = value


def schema_given() -> str | None:
    """Return the value of --schema or HOLDKIT_SCHEMA."""
    given: str | None = click.get_current_context().meta.get(_SCHEMA)
    return given


def key_given() -> str | None:
    """Return the value of --key or HOLDKIT_KEY."""
    given: str | None = click.get_current_context().meta.get(_KEY)
    return given or None


key_option: Callable[[Any], Any] = click.option(
    "--key",
    "api_key",
    envvar="HOLDKIT_KEY",
    metavar="KEY",
    expose_value=False,
    callback=_keep_key,
    help="API key, if the URL is that of a server  [HOLDKIT_KEY]",
)


def url_option(function: Any) -> Any:
    """Add --url, and --schema for PostgreSQL."""
    schema = click.option(
        "--schema",
        envvar="HOLDKIT_SCHEMA",
        metavar="NAME",
        expose_value=False,
        callback=_keep_schema,
        help="schema of the tables on PostgreSQL  [HOLDKIT_SCHEMA; default: holdkit]",
    )
    url = click.option(
        "--url",
        envvar="HOLDKIT_URL",
        metavar="URL",
        help="sqlite:///holds.db or postgresql://…; a server's http://…, where a command works there  [HOLDKIT_URL]",
    )
    return url(schema(function))


tenant_option: Callable[[Any], Any] = click.option(
    "--tenant", envvar="HOLDKIT_TENANT", default="", metavar="NAME", help="tenant  [HOLDKIT_TENANT]"
)


def database_options(function: Any) -> Any:
    """Add the options of commands on a whole database. The URL may also be given as an argument."""
    return click.argument("target", metavar="[URL]", required=False)(url_option(as_json(function)))


def tenant_options(function: Any) -> Any:
    """Add the options of commands on one tenant's data, in a database or on a server."""
    return url_option(key_option(tenant_option(as_json(function))))


def call_options(function: Any) -> Any:
    """Add the options of commands that change something."""
    for option in (
        click.option("--correlation-id", help="your own id, to correlate logs"),
        click.option("--reason", help="reason, recorded in the journal"),
        click.option("--op", help="operation id: a retry with the same id is applied once and gets the same answer"),
        click.option(
            "--actor",
            envvar="HOLDKIT_ACTOR",
            help="who makes the change, such as user:7 or job:nightly  [HOLDKIT_ACTOR]",
        ),
    ):
        function = option(function)
    return function


def call_of(given: dict[str, Any]) -> Call:
    """Return the options of `call_options`, as arguments of a kernel call."""
    return Call(op=given["op"], actor=given["actor"], reason=given["reason"], correlation_id=given["correlation_id"])


class ForcedCall(CallWithoutReason):
    """The options of `call_options`, as arguments of a forced call."""

    reason: str


def forced_call(given: dict[str, Any]) -> ForcedCall:
    """Return the options of `call_options`, as arguments of a call that acts without the token, or passes a limit: it needs a reason."""
    reason: str = given["reason"]  # None is refused
    return ForcedCall(op=given["op"], actor=given["actor"], reason=reason, correlation_id=given["correlation_id"])


def chosen_url(url: str | None, target: str | None = None) -> str:
    """Return the URL from the argument, otherwise from the option; with the schema, if one was given."""
    given = url if target is None else target
    if not given:
        raise click.UsageError("no database given: use --url URL, or set HOLDKIT_URL")
    refuse_log(given)
    return with_schema(given, schema_given())


def file_of(url: str) -> Path | None:
    """Return the file of a URL, if it names one."""
    scheme, _, rest = url.partition(":///")
    return Path(unquote(rest)) if scheme == "sqlite" and rest else None


def must_exist(url: str) -> None:
    """Reject a URL whose file does not exist: a mistyped URL must not create one."""
    path = file_of(url)
    if path is not None and not path.exists():
        raise InvalidRequest(
            f"there is no database at {path}: check the URL, or create one with holdkit pools create",
            field="url",
            code="url_not_found",
        )


def is_server(url: str) -> bool:
    """Return whether a URL is the address of a server."""
    return url.startswith(("http://", "https://"))


def database_url(url: str | None, target: str | None = None) -> str:
    """Return the URL of a database, for what is done where the data is."""
    given = chosen_url(url, target)
    if is_server(given):
        name = click.get_current_context().command_path
        raise InvalidRequest(
            f"{name} works on the database itself: run it where the data is, with the database's URL",
            field="url",
            code="not_remote",
        )
    return given


def without_password(url: str) -> str:
    """Return the URL of a database without user and password."""
    return url if "@" not in url else f"{url.partition('://')[0]}://…@{url.rpartition('@')[2]}"


def time_of(hk: Opened) -> Time:
    """Return the engine's time, for the `server_time` of a document."""
    return at(hk._executor.clock())


def is_local(hk: Opened) -> bool:
    """Return whether it is a database. Documents then name the tenant; a server knows it by the API key."""
    return isinstance(hk, Kernel)


@contextmanager
def open_existing(url: str) -> Iterator[Engine]:
    """Open the engine of an existing database."""
    must_exist(url)
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def open_kernel(url: str | None, tenant: str = "", *, create: bool = False) -> Iterator[Opened]:
    """Open the kernel of an existing database, or with `create` also of a new one; or the client of a server."""
    url = chosen_url(url)
    if is_server(url):
        with _open_client(url, tenant) as client:
            yield client
        return
    with open_database(url, create=create) as hk:
        yield hk.tenant(tenant) if tenant else hk


@contextmanager
def open_database(url: str | None, target: str | None = None, *, create: bool = False) -> Iterator[Kernel]:
    """Open the kernel of an existing database, or with `create` also of a new one; never a server."""
    url = database_url(url, target)
    if not create:
        must_exist(url)
    with connect(url) as hk:
        yield hk


def _open_client(url: str, tenant: str) -> RemoteKernel:
    """Return the client of a server, with the key of --key or HOLDKIT_KEY."""
    if find_spec("httpx") is None:
        raise EngineError("a server is called with httpx: pip install 'holdkit[cli,client]'")
    if tenant:
        raise click.UsageError("--tenant goes with a database: a server knows the tenant by the API key (--key)")
    from ..client import connect as connect_client

    return connect_client(url, key=key_given())
