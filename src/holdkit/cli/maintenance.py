"""``holdkit verify``, ``repair``, ``limits``, ``sweep``, ``migrate`` and ``doctor``: maintenance of a database."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from ..core.limits import SPANS
from ..kernel.doctor import examine
from ..kernel.limits import changes_of, in_seconds
from ..kernel.opening import migrate as migrate_schema
from ..wire.fields import at
from ..wire.system import LimitsAnswer, SweepAnswer, VerifyAnswer
from .documents import DoctorDocument, MigrateDocument, RepairDocument
from .options import (
    call_of,
    call_options,
    chosen_url,
    database_options,
    must_exist,
    open_existing,
    open_kernel,
    schema_given,
    time_of,
)
from .output import FOUND, OK, Output, progress_bar
from .serve import server_settings


@click.command()
@database_options
def verify(target: str | None, url: str | None, in_json: bool) -> int:
    """Replay the whole journal and compare the result with every stored row. Changes nothing.

    \b
    Example:
      holdkit verify sqlite:///holds.db && echo clean
    """
    with open_existing(chosen_url(url, target)) as engine, progress_bar("verifying") as progress:
        found = list(engine.verify(progress))
        lines = [str(difference) for difference in found]
        document = VerifyAnswer(not found, lines, found, at(engine.clock()))
    Output(in_json).write(document, *(lines or ["every row matches the journal"]))
    return FOUND if found else OK


@click.command()
@click.option("--dry-run", is_flag=True, help="only report what would be corrected (the default without --yes)")
@click.option("--yes", is_flag=True, help="make the corrections")
@call_options
@database_options
def repair(target: str | None, url: str | None, dry_run: bool, yes: bool, in_json: bool, **call: Any) -> int:
    """Correct rows that differ from the journal. Recorded as pool.repaired; writers wait meanwhile.

    \b
    Example:
      holdkit repair sqlite:///holds.db            # reports what it would correct
      holdkit repair sqlite:///holds.db --yes --reason "disk swapped"
    """
    if call["op"] is not None:
        raise click.UsageError("repair takes no --op: a second run finds nothing to correct")
    with open_kernel(chosen_url(url, target)) as hk, progress_bar("comparing") as progress:
        report = hk.repair(dry_run=dry_run or not yes, progress=progress, **call_of(call))
    repaired, left = (tuple(map(str, found)) for found in (report.repaired, report.left))
    verb = "would correct" if report.dry_run else "corrected"
    lines = [f"{verb}: {line}" for line in repaired] + [
        f"cannot be corrected from the journal: {line}" for line in left
    ]
    if report.dry_run and repaired:
        lines.append("nothing was changed; run it again with --yes to correct this")
    Output(in_json).write(
        RepairDocument(hk.url, report.ok, report.dry_run, repaired, left),
        *(lines or ["every row matches the journal"]),
    )
    return OK if report.ok else FOUND


@click.command()
@click.option(
    "--set", "changes", multiple=True, metavar="NAME=VALUE", help="for example retention=90d or max_holds=none"
)
@click.option("--if-version", type=click.IntRange(0), help="only if the limits are at this version")
@call_options
@database_options
def limits(
    target: str | None, url: str | None, changes: tuple[str, ...], if_version: int | None, in_json: bool, **call: Any
) -> int:
    """Show the limits that are stored with the data, or change them for all processes. Lowering one cancels no hold.

    \b
    Example:
      holdkit limits sqlite:///holds.db
      holdkit limits --set retention=90d --reason "auditors ask for a quarter"
    """
    with open_kernel(chosen_url(url, target)) as hk:
        if changes:
            changed = changes_of(dict(map(_change, changes)))
            values: dict[str, Any] = {
                name: timedelta(microseconds=value) if name in SPANS else value for name, value in changed.items()
            }
            found = hk.change_limits(if_version=if_version, **_who(call), **values)
        else:
            found = hk.limits_in_force()
        now = time_of(hk)
    values_in_seconds = in_seconds(found)
    lines = [f"{name:<20} {_shown(name, value)}" for name, value in values_in_seconds.items()]
    Output(in_json).write(
        LimitsAnswer(values_in_seconds, found.version, now), *lines, f"{'version':<20} {found.version}"
    )
    return OK


def _change(text: str) -> tuple[str, Any]:
    """Parse NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text}: must have the form NAME=VALUE, such as retention=90d")
    if value == "none":
        return name, None
    return name, int(value) if value.isdecimal() else value


def _who(call: dict[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("op", "actor", "reason", "correlation_id")}


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "unlimited"
    return str(timedelta(seconds=value)) if name in SPANS else str(value)


@click.command()
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=500, show_default=True, help="maximum number of holds to expire"
)
@database_options
def sweep(target: str | None, url: str | None, limit: int, in_json: bool) -> int:
    """Expire holds that are due, earliest deadline first, and prune a little. Safe to run at any time, by any process.

    \b
    Example:
      holdkit sweep --limit 1000
    """
    with open_kernel(chosen_url(url, target)) as hk:
        report = hk.sweep(limit)
    more = "; more are due: run it again" if report.more else ""
    holds, tenants = list(report.holds), list(report.tenants)
    document = SweepAnswer(report.expired, holds, tenants, report.more, at(report.scanned_slot))
    Output(in_json).write(document, f"{report.expired} holds expired{more}")
    return OK


@click.command()
@click.option(
    "--lanes",
    type=click.IntRange(1, 65_536),
    help="number of journal lanes, a power of two, fixed when the tables are created  [default: 64; with --citus 1024]",
)
@click.option("--citus", is_flag=True, help="distribute the tables by lane over the workers of a Citus cluster")
@click.option("--sql", "as_sql", is_flag=True, help="only print the SQL script that creates the tables")
@database_options
def migrate(target: str | None, url: str | None, lanes: int | None, citus: bool, as_sql: bool, in_json: bool) -> int:
    """Create or upgrade Holdkit's tables in a PostgreSQL database, in one transaction.

    \b
    Example:
      holdkit migrate postgresql://localhost/shop
    """
    if as_sql:
        from ..engines.postgres import migration_sql

        click.echo(migration_sql(lanes, citus=citus, schema=schema_given() or "holdkit"), nl=False)
        return OK
    if target is None and not url:
        raise click.UsageError("no database given: use --url URL, or --sql")
    version = migrate_schema(chosen_url(url, target), lanes=lanes, citus=citus)
    Output(in_json).write(MigrateDocument(version), f"the schema is at version {version}")
    return OK


MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}


@click.command()
@click.option(
    "--settings", "show_settings", is_flag=True, help="list every setting of the server, and where it comes from"
)
@click.option(
    "--config",
    envvar="HOLDKIT_SERVER_CONFIG",
    type=click.Path(dir_okay=False),
    help="the server's TOML file  [HOLDKIT_SERVER_CONFIG]",
)
@database_options
def doctor(target: str | None, url: str | None, show_settings: bool, config: str | None, in_json: bool) -> int:
    """Check versions, settings, files, disk, clock, schema and sweeper, with advice for each problem. Fails if a check fails.

    The settings of a server are those that `holdkit serve` would use with the same environment and --config.

    \b
    Example:
      holdkit doctor sqlite:///holds.db
      holdkit doctor sqlite:///holds.db --settings
    """
    url = chosen_url(url, target)
    must_exist(url)
    of_server, settings = server_settings(config)
    findings = (*examine(url), *of_server)
    failed = any(finding.level == "fail" for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{MARKS[finding.level]}  {finding.name:<18}  {finding.says}")
        if finding.advice:
            lines.append(f"{'':<26}→ {finding.advice}")
    if show_settings:
        width = max((len(one.name) for one in settings), default=0)
        lines += ["", *(f"{one.name:<{width}}  {one.value}  ({one.source}): {one.description}" for one in settings)]
    Output(in_json).write(DoctorDocument(not failed, findings, settings if show_settings else ()), *lines)
    return FOUND if failed else OK
