"""From --url, HOLDKIT_URL or an argument to what a command works on. A command that only looks creates nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click

from ..engines.port import Engine
from ..errors import InvalidRequest
from ..faces._sync.kernel import Kernel
from ..faces.opening import connect
from ..kernel._sync.calls import Call
from ..kernel.opening import open_engine, with_schema
from .output import as_json

_SCHEMA = "holdkit.schema"
"""Where the context of a command keeps what --schema said: it belongs to the URL, and no command asks for it by itself."""


def _keep_schema(context: click.Context, _: click.Parameter, said: str | None) -> None:
    context.meta[_SCHEMA] = said


def schema_said() -> str | None:
    """What --schema said, or HOLDKIT_SCHEMA."""
    said: str | None = click.get_current_context().meta.get(_SCHEMA)
    return said


def url_option(function: Any) -> Any:
    """Where: a URL, and on PostgreSQL a schema there."""
    schema = click.option(
        "--schema",
        envvar="HOLDKIT_SCHEMA",
        metavar="NAME",
        expose_value=False,
        callback=_keep_schema,
        help="PostgreSQL: where the tables are; else holdkit  [HOLDKIT_SCHEMA]",
    )
    url = click.option(
        "--url",
        envvar="HOLDKIT_URL",
        metavar="URL",
        help="sqlite:///holds.db, log:///dir or postgresql://…  [HOLDKIT_URL]",
    )
    return url(schema(function))


tenant_option: Callable[[Any], Any] = click.option(
    "--tenant", envvar="HOLDKIT_TENANT", default="", metavar="NAME", help="whose  [HOLDKIT_TENANT]"
)


def whole(function: Any) -> Any:
    """For commands on everything behind a URL: it may also be given as an argument."""
    return click.argument("place", metavar="[URL]", required=False)(url_option(as_json(function)))


def of_tenant(function: Any) -> Any:
    """For commands on one tenant's things."""
    return url_option(tenant_option(as_json(function)))


def call_options(function: Any) -> Any:
    """What every change may carry."""
    for option in (
        click.option("--correlation-id", help="your own thread through logs"),
        click.option("--reason", help="why, for the journal"),
        click.option("--op", help="operation id: the same again gives the same answer, applied once"),
        click.option("--actor", envvar="HOLDKIT_ACTOR", help="who: user:7, job:nightly, …  [HOLDKIT_ACTOR]"),
    ):
        function = option(function)
    return function


def call_of(given: dict[str, Any]) -> Call:
    """The options of `call_options`, as every call takes them."""
    return Call(op=given["op"], actor=given["actor"], reason=given["reason"], correlation_id=given["correlation_id"])


def chosen(url: str | None, place: str | None = None) -> str:
    """The URL meant: the argument, else the option; with the schema, if one was said."""
    said = url if place is None else place
    if not said:
        raise click.UsageError("which one? give --url URL, or set HOLDKIT_URL")
    return with_schema(said, schema_said())


def file_of(url: str) -> Path | None:
    """The file or directory behind a URL, if it is one."""
    scheme, _, rest = url.partition(":///")
    return Path(unquote(rest)) if scheme in ("sqlite", "log") and rest else None


def must_exist(url: str) -> None:
    """Refuse what is not there yet: a mistyped URL must not become a new file."""
    path = file_of(url)
    if path is not None and not path.exists():
        raise InvalidRequest(f"there is nothing at {path}", field="url", code="url_not_found")


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """The engine of something that is there. A bar where somebody watches."""
    must_exist(url)
    engine = _watched(url) if url.startswith("log:") and sys.stderr.isatty() else open_engine(url)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def kernel(url: str | None, tenant: str = "", *, create: bool = False) -> Iterator[Kernel]:
    """The kernel on something that is there, or with `create` on something new."""
    url = chosen(url)
    if not create:
        must_exist(url)
    with connect(url) as hk:
        yield hk.tenant(tenant) if tenant else hk


def _watched(url: str) -> Engine:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("opening"), BarColumn(), TextColumn("{task.completed} batches"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("opening", total=None)
        return open_engine(url, progress=lambda frames: progress.update(bar, completed=frames))
