"""Options that commands share, and the engine or kernel that they select. A command that only reads creates nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import click

from ..engines.port import Engine
from ..errors import InvalidRequest
from ..faces._sync.kernel import Kernel
from ..faces.opening import connect
from ..kernel.context import Call
from ..kernel.opening import open_engine, with_schema
from ..wire.fields import at
from .output import as_json

_SCHEMA = "holdkit.schema"
"""The key of --schema in the command's context: it belongs to the URL, so no command takes it as an argument."""


def _keep_schema(context: click.Context, _: click.Parameter, value: str | None) -> None:
    context.meta[_SCHEMA] = value


def schema_given() -> str | None:
    """The value of --schema or HOLDKIT_SCHEMA."""
    given: str | None = click.get_current_context().meta.get(_SCHEMA)
    return given


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
        help="sqlite:///holds.db, log:///dir or postgresql://…  [HOLDKIT_URL]",
    )
    return url(schema(function))


tenant_option: Callable[[Any], Any] = click.option(
    "--tenant", envvar="HOLDKIT_TENANT", default="", metavar="NAME", help="tenant  [HOLDKIT_TENANT]"
)


def database_options(function: Any) -> Any:
    """Add the options of commands on a whole database. The URL may also be given as an argument."""
    return click.argument("target", metavar="[URL]", required=False)(url_option(as_json(function)))


def tenant_options(function: Any) -> Any:
    """Add the options of commands on one tenant's data."""
    return url_option(tenant_option(as_json(function)))


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
    """The options of `call_options`, as arguments of a kernel call."""
    return Call(op=given["op"], actor=given["actor"], reason=given["reason"], correlation_id=given["correlation_id"])


def chosen_url(url: str | None, target: str | None = None) -> str:
    """The URL from the argument, otherwise from the option; with the schema, if one was given."""
    given = url if target is None else target
    if not given:
        raise click.UsageError("no database given: use --url URL, or set HOLDKIT_URL")
    return with_schema(given, schema_given())


def file_of(url: str) -> Path | None:
    """The file or directory of a URL, if it names one."""
    scheme, _, rest = url.partition(":///")
    return Path(unquote(rest)) if scheme in ("sqlite", "log") and rest else None


def must_exist(url: str) -> None:
    """Reject a URL whose file does not exist: a mistyped URL must not create one."""
    path = file_of(url)
    if path is not None and not path.exists():
        raise InvalidRequest(
            f"there is no database at {path}: check the URL, or create one with holdkit pools create",
            field="url",
            code="url_not_found",
        )


def time_of(hk: Kernel) -> datetime:
    """The engine's time, for the `server_time` of a document."""
    return at(hk.executor.now())


@contextmanager
def open_existing(url: str) -> Iterator[Engine]:
    """Open the engine of an existing database, with a progress bar on a terminal."""
    must_exist(url)
    engine = _open_log(url) if url.startswith("log:") and sys.stderr.isatty() else open_engine(url)
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def open_kernel(url: str | None, tenant: str = "", *, create: bool = False) -> Iterator[Kernel]:
    """Open the kernel on an existing database, or with `create` also on a new one."""
    url = chosen_url(url)
    if not create:
        must_exist(url)
    with connect(url) as hk:
        yield hk.tenant(tenant) if tenant else hk


def _open_log(url: str) -> Engine:
    """Open a log with a progress bar: recovery may take a while."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("opening"), BarColumn(), TextColumn("{task.completed} batches"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("opening", total=None)
        return open_engine(url, progress=lambda frames: progress.update(bar, completed=frames))
