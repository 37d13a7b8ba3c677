"""The commands, and the one place where errors become words and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

import click

from ..core.commands import Group, Sweep
from ..core.outcomes import Done
from ..engines.port import Engine
from ..errors import HoldkitError, InvalidRequest
from ..kernel.opening import migrate as make_tables
from ..kernel.opening import open_engine
from .logs import log
from .words import FAILED, FINE, FOUND, USAGE, as_json, say


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="holdkit", prog_name="holdkit")
def commands() -> None:
    """Holds on scarce things: look after what is stored."""


commands.add_command(log)


@commands.command()
@click.argument("url")
@as_json
def verify(url: str, in_json: bool) -> int:
    """Fold the whole journal and compare it with every stored row. Changes nothing."""
    with opened(url) as engine:
        found = [str(difference) for difference in engine.verify()]
    say({"url": url, "ok": not found, "differences": found}, in_json,
        *(found or ["every row is exactly what the journal says"]))  # fmt: skip
    return FOUND if found else FINE


@commands.command()
@click.argument("url")
@click.option("--limit", type=click.IntRange(1, 10_000), default=500, show_default=True, help="holds to expire at most")
@as_json
def sweep(url: str, limit: int, in_json: bool) -> int:
    """Return what is due, earliest deadline first, and prune a little. Safe to run anywhere, any time."""
    with opened(url) as engine:
        outcome = engine.apply([Group((Sweep(limit=limit),))]).outcomes[0][0]
    assert isinstance(outcome, Done)
    more = "; more are due: run it again" if outcome.more else ""
    say({"url": url, "expired": outcome.expired, "more": outcome.more}, in_json, f"{outcome.expired} expired{more}")
    return FINE


@commands.command()
@click.argument("url", required=False)
@click.option(
    "--lanes",
    type=click.IntRange(1, 65_536),
    help="a power of two, fixed when the tables are made; 64 for one server, 1024 with --citus, unless you say otherwise",
)
@click.option("--citus", is_flag=True, help="distribute the tables by lane over the workers of a Citus cluster")
@click.option("--sql", "as_sql", is_flag=True, help="only print the script that would make the tables")
@as_json
def migrate(url: str | None, lanes: int | None, citus: bool, as_sql: bool, in_json: bool) -> int:
    """Make Holdkit's tables in a PostgreSQL database, or bring them up to date. Old or new, never half."""
    if as_sql:
        from ..engines.postgres import migration_sql

        click.echo(migration_sql(lanes, citus=citus), nl=False)
        return FINE
    if url is None:
        raise click.UsageError("give the URL of a database, or --sql")
    version = make_tables(url, lanes=lanes, citus=citus)
    say({"version": version}, in_json, f"the schema is version {version}")
    return FINE


@commands.command()
@click.option("--seconds", type=click.FloatRange(1, 600), default=14, show_default=True, help="length of the sale")
@click.option("--seed", type=int, default=1, show_default=True, help="of the buyers' tempers")
@click.option("--plain", is_flag=True, help="lines of text instead of a live view")
@as_json
def demo(seconds: float, seed: int, plain: bool, in_json: bool) -> int:
    """A flash sale on one SQLite file: many processes, one of them killed, nothing oversold."""
    from ..demo.__main__ import main as perform

    options = [*(["--plain"] if plain else []), *(["--json"] if in_json else [])]
    return perform(["--seconds", str(seconds), "--seed", str(seed), *options])


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    """The engine of something that is there: a command that looks never creates. A bar where somebody watches."""
    scheme, _, rest = url.partition(":///")
    path = unquote(rest)
    if scheme in ("sqlite", "log") and path and not Path(path).exists():
        raise InvalidRequest(f"there is nothing at {path}", field="url", code="url_not_found")
    engine = _watched(url) if scheme == "log" and sys.stderr.isatty() else open_engine(url)
    try:
        yield engine
    finally:
        engine.close()


def _watched(url: str) -> Engine:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("opening"), BarColumn(), TextColumn("{task.completed} batches"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("opening", total=None)
        return open_engine(url, progress=lambda frames: progress.update(bar, completed=frames))


def run(arguments: list[str]) -> int:
    """Run a command and give its exit code."""
    try:
        code = commands.main(arguments, prog_name="holdkit", standalone_mode=False)
        return code if isinstance(code, int) else FINE
    except click.exceptions.Exit as left:
        return left.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return USAGE
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever read us has gone: nothing more can be said
        return FINE
    except InvalidRequest as wrong:
        click.echo(str(wrong), err=True)
        return USAGE
    except HoldkitError as failed:
        click.echo(str(failed), err=True)
        return FAILED
    except Exception as bug:  # noqa: BLE001 - people get words; a bug of ours says that it is one
        click.echo(f"holdkit: unexpected {type(bug).__name__}: {bug}; please report it", err=True)
        return FAILED
