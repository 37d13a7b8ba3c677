"""``holdkit sweep``, ``verify``, ``repair`` and ``migrate``: looking after what is stored."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from ..core.limits import SPANS
from ..kernel.doctor import examine
from ..kernel.limits import changes_of, in_seconds
from ..kernel.opening import migrate as make_tables
from .documents import DoctorDocument, LimitsDocument, MigrateDocument, RepairDocument, SweepDocument, VerifyDocument
from .options import call_of, call_options, chosen, kernel, must_exist, opened, schema_said, whole
from .output import FINE, FOUND, Output, bar


@click.command()
@whole
def verify(place: str | None, url: str | None, in_json: bool) -> int:
    """Fold the whole journal and compare it with every stored row. Changes nothing.

    \b
    Example:
      holdkit verify sqlite:///holds.db && echo clean
    """
    with opened(chosen(url, place)) as engine, bar("verifying") as progress:
        found = tuple(str(difference) for difference in engine.verify(progress))
    Output(in_json).say(
        VerifyDocument(engine.url, not found, found), *(found or ["every row is exactly what the journal says"])
    )
    return FOUND if found else FINE


@click.command()
@click.option("--dry-run", is_flag=True, help="only say what would be mended (so without --yes)")
@click.option("--yes", is_flag=True, help="do it")
@call_options
@whole
def repair(place: str | None, url: str | None, dry_run: bool, yes: bool, in_json: bool, **call: Any) -> int:
    """Make rows that differ again what the journal says. Journaled as pool.repaired; writers wait meanwhile.

    \b
    Example:
      holdkit repair sqlite:///holds.db            # says what it would do
      holdkit repair sqlite:///holds.db --yes --reason "disk swapped"
    """
    if call["op"] is not None:
        raise click.UsageError("a repair needs no operation id: a second one finds nothing to do")
    with kernel(chosen(url, place)) as hk, bar("comparing") as progress:
        report = hk.repair(dry_run=dry_run or not yes, progress=progress, **call_of(call))
    mended, left = (tuple(map(str, found)) for found in (report.mended, report.left))
    would = "would mend" if report.dry_run else "mended"
    lines = [f"{would}: {line}" for line in mended] + [f"cannot be mended from the journal: {line}" for line in left]
    if report.dry_run and mended:
        lines.append("nothing was changed; run it again with --yes")
    Output(in_json).say(
        RepairDocument(hk.url, report.ok, report.dry_run, mended, left),
        *(lines or ["every row is exactly what the journal says"]),
    )
    return FINE if report.ok else FOUND


@click.command()
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="such as retention=90d, or max_holds=none")
@click.option("--if-version", type=click.IntRange(0), help="only if they are as you saw them")
@call_options
@whole
def limits(
    place: str | None, url: str | None, changes: tuple[str, ...], if_version: int | None, in_json: bool, **call: Any
) -> int:
    """Show the limits that are stored with the data, or change them for every process. A lowered one cancels nothing.

    \b
    Example:
      holdkit limits sqlite:///holds.db
      holdkit limits --set retention=90d --reason "auditors ask for a quarter"
    """
    with kernel(chosen(url, place)) as hk:
        if changes:
            wanted = changes_of(dict(map(_change, changes)))
            said: dict[str, Any] = {
                name: timedelta(microseconds=value) if name in SPANS else value for name, value in wanted.items()
            }
            found = hk.change_limits(if_version=if_version, **_who(call), **said)
        else:
            found = hk.limits_in_force()
    told = in_seconds(found)
    lines = [f"{name:<20} {_shown(name, value)}" for name, value in told.items()]
    Output(in_json).say(LimitsDocument(hk.url, told, found.version), *lines, f"{'version':<20} {found.version}")
    return FINE


def _change(text: str) -> tuple[str, Any]:
    """A name and a value of the command line."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text}: must look like retention=90d")
    if value == "none":
        return name, None
    return name, int(value) if value.isdecimal() else value


def _who(call: dict[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("op", "actor", "reason", "correlation_id")}


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "unbounded"
    return str(timedelta(seconds=value)) if name in SPANS else str(value)


@click.command()
@click.option("--limit", type=click.IntRange(1, 10_000), default=500, show_default=True, help="holds to expire at most")
@whole
def sweep(place: str | None, url: str | None, limit: int, in_json: bool) -> int:
    """Return what is due, earliest deadline first, and prune a little. Safe to run anywhere, any time.

    \b
    Example:
      holdkit sweep --limit 1000
    """
    with kernel(chosen(url, place)) as hk:
        report = hk.sweep(limit)
    more = "; more are due: run it again" if report.more else ""
    told = SweepDocument(hk.url, report.expired, report.holds, report.tenants, report.more)
    Output(in_json).say(told, f"{report.expired} expired{more}")
    return FINE


@click.command()
@click.option(
    "--lanes",
    type=click.IntRange(1, 65_536),
    help="a power of two, fixed when the tables are made; 64 for one server, 1024 with --citus, unless you say otherwise",
)
@click.option("--citus", is_flag=True, help="distribute the tables by lane over the workers of a Citus cluster")
@click.option("--sql", "as_sql", is_flag=True, help="only print the script that would make the tables")
@whole
def migrate(place: str | None, url: str | None, lanes: int | None, citus: bool, as_sql: bool, in_json: bool) -> int:
    """Make Holdkit's tables in a PostgreSQL database, or bring them up to date. Old or new, never half.

    \b
    Example:
      holdkit migrate postgresql://localhost/shop
    """
    if as_sql:
        from ..engines.postgres import migration_sql

        click.echo(migration_sql(lanes, citus=citus, schema=schema_said() or "holdkit"), nl=False)
        return FINE
    if place is None and not url:
        raise click.UsageError("give the URL of a database, or --sql")
    version = make_tables(chosen(url, place), lanes=lanes, citus=citus)
    Output(in_json).say(MigrateDocument(version), f"the schema is version {version}")
    return FINE


MARKS = {"ok": "ok  ", "warn": "WARN", "fail": "FAIL"}


@click.command()
@whole
def doctor(place: str | None, url: str | None, in_json: bool) -> int:
    """Check versions, settings, files, disk, clock, schema and sweep; each line says what to do. Fails if any fails.

    \b
    Example:
      holdkit doctor sqlite:///holds.db
    """
    url = chosen(url, place)
    must_exist(url)
    findings = tuple(examine(url))
    failed = any(finding.level == "fail" for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{MARKS[finding.level]}  {finding.name:<18}  {finding.says}")
        if finding.advice:
            lines.append(f"{'':<26}→ {finding.advice}")
    Output(in_json).say(DoctorDocument(not failed, findings), *lines)
    return FOUND if failed else FINE
