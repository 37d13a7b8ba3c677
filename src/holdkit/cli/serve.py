"""``holdkit serve`` and ``holdkit ready``: the HTTP server."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import click

from ..engines.doctor import Finding
from ..errors import EngineError, InvalidRequest
from .documents import ReadyDocument, SettingDocument
from .options import database_options, database_url, without_password
from .output import OK, Output, as_json

if TYPE_CHECKING:
    from ..server.configuration import Configured, Setting
    from ..server.settings import Settings


def need_server() -> None:
    """Check that the packages of the `server` extra are installed."""
    missing = _missing()
    if missing:
        raise EngineError(f"the server needs {', '.join(missing)}: pip install 'holdkit[server]'")


def _missing() -> list[str]:
    needed = ("cryptography", "httptools", "httpx", "prometheus_client", "sse_starlette", "uvicorn")
    return [name for name in needed if find_spec(name) is None]


ENGINES: Final = {
    "memory": "memory, until the process ends",
    "sqlite": "SQLite",
    "postgresql": "PostgreSQL",
    "postgres": "PostgreSQL",
}
"""By the scheme of a URL: how a person calls it."""
HELP_ALL: Final = "holdkit.help_all"
"""In `meta` of the context: whether the help lists the settings of the groups too."""


class ServeCommand(click.Command):
    """A command with one option per setting of the server. They are made when they are needed: importing the server takes a
    while, and it may not be installed."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the options of the command itself, then those of the settings."""
        own = super().get_params(ctx)
        taken = {option for parameter in own for option in parameter.opts}
        need_server()
        from ..server.configuration import SETTINGS

        return own + [_option(one) for one in SETTINGS.values() if one.flag not in taken]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; of a flag from before the groups, say the new one."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as unknown:
            from ..server.configuration import advice_on

            head = "--no-" if unknown.option_name.startswith("--no-") else "--"
            name = unknown.option_name.removeprefix(head).replace("-", "_")
            advice = advice_on(name, lambda setting: setting.flag.replace("--", head, 1))
            if not advice:
                raise
            raise click.UsageError(f"No such option '{unknown.option_name}': {advice}.", ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the settings without a group, and with `--help-all` those of every group, in sections of their own."""
        from ..server.configuration import GROUPS

        sections: dict[str | None, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                group = parameter.setting.group if isinstance(parameter, SettingOption) else None
                sections.setdefault(group, []).append(record)
        heads = {
            None: "Options",
            "": "Settings (also HOLDKIT_SERVER_NAME in the environment, or name = value in --config)",
        }
        heads |= {name: f"[{name}] {about.removesuffix('.')}" for name, about in GROUPS.items()}
        shown = sections if ctx.meta.get(HELP_ALL) else {None: sections.pop(None), "": sections.pop("")}
        for group, records in shown.items():
            with formatter.section(heads[group]):
                formatter.write_dl(records)
        if shown is not sections:
            count = sum(map(len, sections.values()))
            formatter.write_paragraph()
            formatter.write_text(f"{count} more in {len(sections)} groups: holdkit serve --help-all, docs/operating.md")


def _help_all(ctx: click.Context, _parameter: click.Parameter, asked: bool) -> None:
    """Print the help with every setting."""
    if asked and not ctx.resilient_parsing:
        ctx.meta[HELP_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class SettingOption(click.Option):
    """An option that sets one setting of the server."""

    setting: Setting


def _option(setting: Setting) -> SettingOption:
    """Make the option of a setting. Its text is checked together with the other sources, so that all get the same message."""
    from ..server.configuration import written

    on = isinstance(setting.default, bool)
    off = setting.flag.replace("--", "--no-")
    option = SettingOption(
        [f"{setting.flag}/{off}" if on else setting.flag, setting.name.replace(".", "__")],
        default=None,
        help=f"{setting.description}  [default: {written(setting.default)}]" if not on else setting.description,
        metavar=None if on else "VALUE",
        type=bool if on else str,
    )
    option.setting = setting
    return option


@click.command(cls=ServeCommand)
@click.option(
    "--config",
    envvar="HOLDKIT_SERVER_CONFIG",
    type=click.Path(dir_okay=False),
    help="TOML file with settings  [HOLDKIT_SERVER_CONFIG]",
)
@click.option(
    "--help-all",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_help_all,
    help="Show every setting, and exit.",
)
@database_options
def serve(target: str | None, url: str | None, in_json: bool, config: str | None, **flags: Any) -> int:
    """Serve the HTTP API and the dashboard until SIGTERM or Ctrl-C; running requests are finished. Also runs the sweeper.

    A flag takes precedence over the environment, and the environment over the file. `holdkit doctor --settings` shows every
    setting that is in force, and where it came from.

    \b
    Example:
      holdkit keys make checkout --url sqlite:///holds.db
      holdkit serve sqlite:///holds.db --port 8420 --requests-max-body 65536
    """
    from ..server import serve as run_server
    from ..server.configuration import configure
    from .documents import ServeDocument

    given = {name.replace("__", "."): value for name, value in flags.items()}
    configured = configure(given, file=config, environment=os.environ)
    chosen, database = configured.configuration, database_url(url, target)

    def started(address: str) -> None:
        Output(in_json).write(ServeDocument(address), *start_lines(address, database, configured, config))

    run_server(
        database,
        settings=chosen,
        host=chosen.host,
        port=chosen.port,
        certificate=chosen.certificate,
        private_key=chosen.private_key,
        behind_proxy=chosen.behind_proxy,
        uds=chosen.uds,
        started=started,
    )
    return OK


def start_lines(address: str, database: str, configured: Configured, file: str | None) -> Iterator[str]:
    """Yield what a person wants to know once the server listens: its address, engine, callers, log and settings."""
    engine = ENGINES.get(database.partition(":")[0].partition("+")[0], database.partition(":")[0])
    sources = Counter(configured.sources.values())
    counts = [(sources["environment"], "environment variable"), (sources["flag"], "flag")]
    named = [file] if file and sources["file"] else []
    named += [f"{count} {name}{'s' if count > 1 else ''}" for count, name in counts if count]
    yield f"holdkit listens on {address}"
    yield f"  stores in  {engine}: {without_password(database).partition('?')[0]}"
    if configured.configuration.open:
        yield "  admits     every request from this machine, without an API key (--open)"
    else:
        yield "  admits     requests with an API key; `holdkit keys make NAME` creates one"
    yield "  logs       warnings and errors, to standard error"
    yield f"  settings   from {', '.join(named)}" if named else "  settings   all at their defaults"
    yield "             `holdkit doctor --settings` lists them"


@click.command()
@click.option(
    "--config",
    envvar="HOLDKIT_SERVER_CONFIG",
    type=click.Path(dir_okay=False),
    help="the server's TOML file  [HOLDKIT_SERVER_CONFIG]",
)
@click.option("--timeout", type=click.FloatRange(0.1, 60), default=2.0, show_default=True, help="seconds to wait")
@as_json
def ready(config: str | None, timeout: float, in_json: bool) -> int:
    """Ask the server on this machine whether it is ready, for health checks. Fails if it is not.

    Finds the server by the same environment and --config that `holdkit serve` reads: its port or socket, and whether it uses TLS. The
    certificate is not checked, because it need not name this machine.

    \b
    Example:
      holdkit ready && echo up
    """
    need_server()
    import httpx

    from ..server.configuration import configure

    chosen = configure(file=config, environment=os.environ).configuration
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(chosen.host, chosen.host)
    shown = f"[{host}]" if ":" in host else host
    base = f"{'http' if chosen.certificate is None else 'https'}://{shown}:{chosen.port}"
    address = base if chosen.uds is None else f"unix:{chosen.uds}"
    try:
        with httpx.Client(transport=httpx.HTTPTransport(uds=chosen.uds, verify=False), timeout=timeout) as http:
            answer = http.get(f"{base}/readyz")
    except httpx.HTTPError as failed:
        raise EngineError(f"no answer from {address}: {str(failed) or type(failed).__name__}") from None
    if answer.status_code != httpx.codes.OK:
        raise EngineError(f"{address} is not ready: it answered {answer.status_code}")
    Output(in_json).write(ReadyDocument(address), f"{address} is ready")
    return OK


def server_settings(config: str | None) -> tuple[tuple[Finding, ...], tuple[SettingDocument, ...]]:
    """Return what `doctor` says of the server's settings, and the settings, first those that are not at their default; nothing if the
    server is not installed."""
    if _missing():
        return (), ()
    from ..server.configuration import configure

    try:
        found = configure(file=config, environment=os.environ)
    except InvalidRequest as wrong:
        return (Finding("server settings", "fail", str(wrong), "correct it, or holdkit serve will not start"),), ()
    listed = sorted(found.listed(), key=lambda one: one[2] == "default")
    settings = tuple(
        SettingDocument(one.name, one.shown(value), source, one.description) for one, value, source in listed
    )
    changed = ", ".join(f"{one.name}={one.value} ({one.source})" for one in settings if one.source != "default")
    findings = (Finding("server settings", "ok", changed or "all at their defaults"), _bounds(found.configuration))
    return findings, settings


def setting_lines(settings: Sequence[SettingDocument]) -> Iterator[str]:
    """Yield the settings as text: first those that are not at their default, then the others by group."""
    width = max((len(one.name) for one in settings), default=0)
    head = None
    for one in settings:
        group = f"[{one.name.rpartition('.')[0]}]" if "." in one.name else "without a group"
        section = group if one.source == "default" else "not at the default"
        if section != head:
            head = section
            yield from ("", head)
        yield f"{one.name:<{width}}  {one.value}  ({one.source}): {one.description}"


def _bounds(settings: Settings) -> Finding:
    """Check the bounds of a server that is started with this limit of open files."""
    from ..server.bounds import MOST_CONNECTIONS, bounds_of, raise_file_limit

    raise_file_limit(settings)  # as `serve` does
    bounds = bounds_of(settings)
    requests = f"{bounds.requests:,} requests ({bounds.requests_of_tenant:,} per tenant)"
    says = f"{bounds.connections:,} connections, {requests}, {bounds.streams:,} streams per process"
    few = settings.connections.max is None and bounds.connections < MOST_CONNECTIONS
    advice = "raise the limit of open files (ulimit -n, LimitNOFILE=) for more, up to 4,000" if few else ""
    return Finding("server bounds", "ok", says, advice)
