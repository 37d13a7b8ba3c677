"""``holdkit admin export`` and ``import``: from one engine to another, through a file or a pipe. ``backup`` and ``restore``: copies
of an SQLite file. ``archive``: old entries leave the journal for files."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from ..engines.durability import sync_file
from ..faces._sync.kernel import Kernel
from ..kernel.archive import archived_entries
from ..kernel.backup import back_up
from ..kernel.backup import restore as restore_backup
from ..kernel.export import LONGEST
from ..kernel.export import export as export_lines
from ..kernel.import_ import Import, import_journal
from .documents import ArchiveDocument, TransferDocument
from .options import (
    chosen_url,
    database_options,
    database_url,
    is_server,
    key_option,
    must_exist,
    open_database,
    open_existing,
    open_kernel,
    url_option,
    without_password,
)
from .output import OK, Output, as_json, at_end, on_interrupt, progress_bar, progress_made


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--replace", is_flag=True, help="replace an existing file")
@click.option("--tenant", default=None, metavar="NAME", help="only this tenant's entries  [default: all tenants]")
@click.option(
    "--archive",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="begin with the entries that were archived to DIR",
)
@url_option
@key_option
@as_json
@on_interrupt(
    lambda given: (
        "the output is incomplete, and an import will refuse it"
        if given["file"] == "-"
        else f"{given['file']} was not written",
        "none",
    )
)
def export_(url: str | None, file: str, replace: bool, tenant: str | None, archive: str | None, in_json: bool) -> int:
    """Write the journal of all tenants, or of one, as JSON lines to FILE (- for stdout). Only the file's owner can read it.

    \b
    Example:
      holdkit admin export --url sqlite:///holds.db holds.jsonl
      holdkit admin export --tenant acme acme.jsonl
      holdkit admin export - | zstd > holds.jsonl.zst
    """
    if file != "-" and Path(file).exists() and not replace:
        raise click.UsageError(f"{file} already exists: choose another name, or use --replace")
    if tenant and archive is None and is_server(chosen_url(url)):
        return _export_from_server(url, tenant, file, replace, in_json)
    with open_existing(database_url(url)) as engine, progress_bar("exporting") as progress, _output_file(file) as out:
        lines = 0
        files = None if archive is None else archived_entries(engine, archive)
        for line in export_lines(engine, progress, tenant=tenant, archive=files):
            out.write(line)
            lines += 1
    if file != "-":
        Output(in_json).write(TransferDocument(engine.url, file, lines - 2), f"{lines - 2} entries in {file}")
    return OK


def _export_from_server(url: str | None, tenant: str, file: str, replace: bool, in_json: bool) -> int:
    """Have a server send the journal of a tenant: for an operator's key."""
    if file == "-":
        raise click.UsageError("an export from a server goes to a file: name one")
    with open_kernel(url) as hk:
        assert not isinstance(hk, Kernel)
        new = Path(f"{file}.new") if replace else Path(file)
        hk.server.tenants.export(tenant, new)
        new.replace(file)
    with Path(file).open("rb") as lines:
        entries = sum(1 for _ in lines) - 2
    Output(in_json).write(TransferDocument(hk.url, file, entries), f"{entries} entries in {file}")
    return OK


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--verify/--no-verify", "check", default=True, help="compare every row before it is committed  [default: yes]"
)
@url_option
@as_json
@on_interrupt(
    lambda _: (
        ("everything was imported, or nothing: run it again, and it says whether the engine is still empty", "unknown")
        if at_end()
        else ("nothing was imported", "none")
    )
)
def import_(url: str | None, file: str, check: bool, in_json: bool) -> int:
    """Import an export (FILE, or - for stdin) into an EMPTY engine: all of it, or nothing. Entries get new positions.

    \b
    Example:
      holdkit migrate postgresql://localhost/shop
      holdkit admin import --url postgresql://localhost/shop holds.jsonl
    """
    url = database_url(url)
    with _input_file(file) as lines, progress_bar("importing") as progress:
        export = Import(_bounded(lines), progress)
        import_journal(url, export, verify=check)
    entries = export.header.entries
    Output(in_json).write(TransferDocument(without_password(url), file, entries), f"{entries} entries imported")
    return OK


@contextmanager
def _output_file(file: str) -> Iterator[BinaryIO]:
    """Open a file that appears complete under its name, or not at all."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file).absolute()
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            sync_file(out.fileno())
        Path(temporary).rename(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@contextmanager
def _input_file(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as lines:
            yield lines
    except FileNotFoundError:
        raise click.UsageError(f"there is no file {file}") from None


def _bounded(lines: BinaryIO) -> Iterator[bytes]:
    """Read line by line, with a bound on the length of a line."""
    while line := lines.readline(LONGEST + 2):
        yield line


@click.command("archive")
@click.option(
    "--before", required=True, metavar="AGE", help="archive entries that are older than this, for example 90d"
)
@click.option("--to", required=True, type=click.Path(file_okay=False), metavar="DIR", help="the directory of the files")
@database_options
@on_interrupt(
    lambda given: (
        f"this run has archived at least {progress_made()[0]} entries to {given['to']}; run it again to go on",
        "unknown",
    )
)
def archive_(target: str | None, url: str | None, before: str, to: str, in_json: bool) -> int:
    """Move old journal entries of all tenants to compressed files in DIR. Safe to stop at any time: the next run goes on.

    \b
    Example:
      holdkit admin archive sqlite:///holds.db --before 90d --to /srv/holds-archive
    """
    with open_database(url, target) as hk, progress_bar("archiving") as progress:
        report = hk.admin.archive(before=before, to=to, progress=progress)
    document = ArchiveDocument(hk.url, report.place, report.entries, report.files)
    Output(in_json).write(document, f"{report.entries} entries archived to {report.place}")
    return OK


check_option = click.option(
    "--verify/--no-verify", "check", default=True, help="verify the copy against its journal  [default: yes]"
)


@click.command()
@click.argument("file", type=click.Path())
@check_option
@url_option
@as_json
@on_interrupt(lambda given: (f"{given['file']} was not written; if it is there, it is complete", "none"))
def backup(url: str | None, file: str, check: bool, in_json: bool) -> int:
    """Copy an SQLite file, as of one moment, while it is in use. The copy is verified before it gets its name.

    \b
    Example:
      holdkit admin backup --url sqlite:///holds.db holds-2026-11-15.db
    """
    url = database_url(url)
    must_exist(url)
    with progress_bar("copying") as progress:
        entries = back_up(url, Path(file), progress, verify=check)
    Output(in_json).write(TransferDocument(url, file, entries), f"{entries} entries in {file}")
    return OK


@click.command()
@click.argument("file", type=click.Path())
@click.option("--replace", is_flag=True, help="replace an existing database, unless a process has it open")
@check_option
@url_option
@as_json
@on_interrupt(
    lambda _: (
        ("everything was restored, or nothing: run it again", "unknown")
        if at_end()
        else ("nothing was restored: run it again", "none")
    )
)
def restore(url: str | None, file: str, replace: bool, check: bool, in_json: bool) -> int:
    """Restore a backup to --url. Cursors that have seen more than the backup contains raise an error.

    \b
    Example:
      holdkit admin restore --url sqlite:///holds.db holds-2026-11-15.db --replace
    """
    url = database_url(url)
    with progress_bar("copying") as progress:
        entries = restore_backup(Path(file), url, progress, force=replace, verify=check)
    Output(in_json).write(TransferDocument(url, file, entries), f"{entries} entries restored")
    return OK
