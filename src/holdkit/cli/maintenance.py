"""``holdkit admin verify``, ``seal``, ``repair``, ``erase``, ``migrate`` and ``doctor``: maintenance of a database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from msgspec import structs

from ..core.erasure import By, Erased
from ..engines.doctor import MIN_FREE
from ..kernel.archive import verify as verify_journal
from ..kernel.doctor import examine
from ..kernel.opening import migrate as migrate_schema
from ..kernel.reports import VerifyReport
from ..kernel.seal_check import verify_seals
from ..kernel.seals import Sealing
from ..kernel.signing import PublicKey
from ..kernel.verification import sealed_through, verify_whole
from ..wire.fields import Time, at
from ..wire.system import VerifyAnswer
from .documents import DoctorDocument, ErasedDocument, MigrateDocument, RepairDocument, SealDocument
from .options import (
    call_of,
    call_options,
    chosen_url,
    database_options,
    database_url,
    is_server,
    key_option,
    must_exist,
    open_database,
    open_existing,
    open_kernel,
    schema_given,
    time_of,
)
from .output import FOUND, OK, Output, on_interrupt, progress_bar, progress_made
from .serve import server_settings, setting_lines
from .words import typed

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--seals", is_flag=True, help="check the seals of the journal too, and name the first broken run of each lane"
)
@click.option("--anchor", type=FILE, help="the anchor file: every seal in it must be there")
@click.option(
    "--public-key", "keys", type=FILE, multiple=True, help="PEM file: seals must be signed by one of these keys"
)
@click.option(
    "--archive",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="also replay the entries that were archived to DIR",
)
@key_option
@database_options
@on_interrupt(lambda _: ("nothing was changed, and nothing can be said about the rows", "none"))
def verify(
    target: str | None,
    url: str | None,
    seals: bool,
    anchor: Path | None,
    keys: tuple[Path, ...],
    archive: str | None,
    in_json: bool,
) -> int:
    """Replay the whole journal and compare the result with every stored row. Changes nothing.

    \b
    Example:
      holdkit admin verify sqlite:///holds.db && echo clean
      holdkit admin verify sqlite:///holds.db --seals --anchor /mnt/witness/anchor.jsonl
    """
    if not seals and (anchor is not None or keys):
        raise click.UsageError("--anchor and --public-key are for --seals")
    place = chosen_url(url, target)
    if is_server(place) and anchor is None and not keys and archive is None:
        return _verify_on_server(place, in_json, seals)
    trusted = [PublicKey.load(key) for key in keys]
    with open_existing(database_url(place)) as engine:
        with progress_bar("verifying") as progress:
            found = list(
                verify_whole(engine, progress, archive) if not seals else verify_journal(engine, progress, archive)
            )
        if seals:
            with progress_bar("checking seals") as progress:
                found += verify_seals(engine, progress, anchor=anchor, keys=trusted, archive=archive)
        return _report(VerifyReport(tuple(found), sealed_through(engine)), at(engine.clock()), in_json, seals)


def _verify_on_server(url: str, in_json: bool, seals: bool) -> int:
    """Have a server do it, as a job, which ends if the command is interrupted."""
    with open_kernel(url) as hk, progress_bar("verifying") as progress:
        report = hk.admin.verify(progress=progress)
        now = time_of(hk)
    return _report(report, now, in_json, seals)


def _report(report: VerifyReport, now: Time, in_json: bool, seals: bool) -> int:
    found = list(report.differences)
    lines = [str(difference) for difference in found]
    sealed = {str(lane): last for lane, last in report.sealed.items()}
    clean = "every row matches the journal"
    if sealed or seals:
        clean += ", and every sealed run its seal" if sealed else "; nothing is sealed"
    Output(in_json).write(VerifyAnswer(not found, lines, found, now, sealed), *(lines or [clean]))
    return FOUND if found else OK


@click.command()
@click.option("--after", help="only runs that begin with an entry older than this, such as 10m  [default: everything]")
@click.option("--key", type=FILE, help="Ed25519 private key that signs the seals, a PEM file")
@click.option("--anchor", type=FILE, help="file to which the last seal of each lane is appended")
@database_options
@on_interrupt(
    lambda _: (f"at least {progress_made()[0]} runs were sealed, and stay sealed; run it again to go on", "unknown")
)
def seal(
    target: str | None, url: str | None, after: str | None, key: Path | None, anchor: Path | None, in_json: bool
) -> int:
    """Seal the journal, so that a later change of an entry is noticed by verify --seals. Any process may, at any time.

    \b
    Example:
      holdkit admin seal sqlite:///holds.db --key seal.pem --anchor /mnt/witness/anchor.jsonl
    """
    sealing = Sealing(after=after or "10m", key=key, anchor=anchor)
    with open_existing(database_url(url, target)) as engine, progress_bar("sealing") as progress:
        sealer, runs = sealing.sealer(engine), 0
        while sealed := sealer.step(all_now=after is None, limit=SEALED_AT_ONCE):
            runs += sealed
            progress(runs, runs + SEALED_AT_ONCE)
        document = SealDocument(runs, at(engine.clock()))
    Output(in_json).write(document, f"{runs} runs sealed")
    return OK


SEALED_AT_ONCE = 10
"""Runs between two updates of the progress bar."""


@click.command()
@click.option("--dry-run", is_flag=True, help="only report what would be corrected (the default without --yes)")
@click.option("--yes", is_flag=True, help="make the corrections")
@call_options
@database_options
@on_interrupt(
    lambda given: (
        ("everything was corrected, or nothing: holdkit admin verify tells which", "unknown")
        if given["yes"] and not given["dry_run"]
        else ("nothing was changed", "none")
    )
)
def repair(target: str | None, url: str | None, dry_run: bool, yes: bool, in_json: bool, **call: Any) -> int:
    """Correct rows that differ from the journal. Recorded as pool.repaired; writers wait meanwhile.

    \b
    Example:
      holdkit admin repair sqlite:///holds.db            # reports what it would correct
      holdkit admin repair sqlite:///holds.db --yes --reason "disk swapped"
    """
    if call["op"] is not None:
        raise click.UsageError("repair takes no --op: a second run finds nothing to correct")
    with open_database(url, target) as hk, progress_bar("comparing") as progress:
        report = hk.admin.repair(dry_run=dry_run or not yes, progress=progress, **call_of(call))
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
@click.option("--entity", help="what holds were confirmed for, such as user:7")
@click.option("--account", help="for whom pools count units")
@click.option("--claim", metavar="TYPE:VALUE", help="a key, whoever has or had it")
@click.option("--actor-named", metavar="ACTOR", help="who acted, such as user:7; only this name is replaced")
@click.option("--tenant", default="", help="whose data is searched  [default: the default tenant]")
@click.option("--dry-run", is_flag=True, help="only count what would be replaced")
@click.option(
    "--archive",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="rewrite the entries that were archived to DIR, too",
)
@call_options
@key_option
@database_options
@on_interrupt(
    lambda given: (
        ("nothing was changed", "none")
        if given["dry_run"]
        else ("a part may have been replaced; run the same command again to replace the rest", "unknown")
    )
)
def erase(
    target: str | None, url: str | None, tenant: str, dry_run: bool, in_json: bool, archive: str | None,
    entity: str | None, account: str | None, claim: str | None, actor_named: str | None, **call: Any,
) -> int:  # fmt: skip
    """Replace what is stored about a person by a stub, in rows, journal and recorded answers; needs --reason. Recorded as
    journal.erased. Interrupted, the same command does the rest. Where entries were archived, it needs --archive DIR.

    \b
    Example:
      holdkit admin erase sqlite:///holds.db --entity user:7 --dry-run
      holdkit admin erase sqlite:///holds.db --entity user:7 --reason "request 2026-118"
      holdkit admin erase http://127.0.0.1:8770 --entity user:7 --reason "request 2026-118"
    """
    if call["op"] is not None:
        raise click.UsageError("erase takes no --op: run the same command again if it was interrupted")
    given: dict[By, str | None] = {"entity": entity, "account": account, "claim": claim, "actor": actor_named}
    named = [(by, value) for by, value in given.items() if value is not None]
    if len(named) != 1:
        raise click.UsageError("give exactly one of --entity, --account, --claim and --actor-named")
    by, value = named[0]
    place = chosen_url(url, target)
    if is_server(place) and tenant:
        raise click.UsageError(
            "on a server, erase works on the default tenant: for --tenant give the URL of the database"
        )
    if is_server(place) and archive is not None:
        raise click.UsageError("the files of an archive are beside the data: start the server with --archive DIR")
    with (
        open_kernel(place) if is_server(place) else open_database(place) as kernel,
        progress_bar("searching") as progress,
    ):
        hk = kernel.tenant(tenant) if tenant else kernel
        erased = hk.admin.erase(by, value, dry_run=dry_run, progress=progress, archive=archive, **call_of(call))
    Output(in_json).write(ErasedDocument(erased.found or erased.resumed, erased), *_erased_lines(erased))
    return OK if erased.found or erased.resumed else FOUND


def _erased_lines(erased: Erased) -> list[str]:
    if not erased.found and not erased.resumed:
        return ["nothing names it: nothing was changed"]
    verb = "would replace" if erased.dry_run else "replaced"
    counts = f"{erased.holds} holds, {erased.entries} journal entries, {erased.pools} pools, {erased.records} records"
    lines = [f"{verb} in {counts} and {erased.operations} recorded answers"]
    if not erased.dry_run:
        lines.append(f"what was replaced reads {erased.stub} now; backups still contain it")
    lines += [f"account {name} is still named: pools count it; erase it with --account" for name in erased.accounts]
    return lines + [f"{name} still tells: it is in use; end or change it, then erase again" for name in erased.in_use]


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
    version = migrate_schema(database_url(url, target), lanes=lanes, citus=citus)
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
    url = database_url(url, target)
    must_exist(url)
    of_server, settings = server_settings(config)
    min_free = next((int(one.value) for one in settings if one.name == "journal.min_free"), MIN_FREE)
    findings = tuple(
        structs.replace(one, says=typed(one.says), advice=typed(one.advice))
        for one in (*examine(url, min_free), *of_server)
    )
    failed = any(finding.level == "fail" for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{MARKS[finding.level]}  {finding.name:<18}  {finding.says}")
        if finding.advice:
            lines.append(f"{'':<26}→ {finding.advice}")
    if show_settings:
        lines += setting_lines(settings)
    Output(in_json).write(DoctorDocument(not failed, findings, settings if show_settings else ()), *lines)
    return FOUND if failed else OK
