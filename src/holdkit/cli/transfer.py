"""``holdkit export`` and ``holdkit import``: from one engine to another, through a file or a pipe."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click

from ..engines.syncing import sync_file
from ..kernel.backup import back_up
from ..kernel.backup import restore as put_back
from ..kernel.export import LONGEST, Import
from ..kernel.export import export as export_lines
from ..kernel.import_ import move_in
from .documents import CarryDocument
from .options import chosen, must_exist, opened, url_option
from .output import FINE, Output, as_json, bar


@click.command("export")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--force", is_flag=True, help="replace the file if it is there")
@url_option
@as_json
def export_(url: str | None, file: str, force: bool, in_json: bool) -> int:
    """Write the whole journal, all tenants, as JSON lines to FILE (- for stdout). The file is for its owner only.

    \b
    Example:
      holdkit export --url sqlite:///holds.db holds.jsonl
      holdkit export - | zstd > holds.jsonl.zst
    """
    if file != "-" and Path(file).exists() and not force:
        raise click.UsageError(f"{file} is there already: choose another name, or --force")
    with opened(chosen(url)) as engine, bar("exporting") as progress, _written(file) as out:
        lines = 0
        for line in export_lines(engine, progress):
            out.write(line)
            lines += 1
    if file != "-":
        Output(in_json).say(CarryDocument(engine.url, file, lines - 2), f"{lines - 2} entries in {file}")
    return FINE


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--verify/--no-verify", "check", default=True, help="compare every row before it is committed  [default: yes]"
)
@url_option
@as_json
def import_(url: str | None, file: str, check: bool, in_json: bool) -> int:
    """Take an export (FILE, or - for stdin) into an EMPTY engine: all of it, or nothing. Positions are numbered anew.

    \b
    Example:
      holdkit migrate postgresql://localhost/shop
      holdkit import --url postgresql://localhost/shop holds.jsonl
    """
    url = chosen(url)
    with _read(file) as lines, bar("importing") as progress:
        export = Import(_bounded(lines), progress)
        move_in(url, export, verify=check)
    entries = export.header.entries
    Output(in_json).say(CarryDocument(_shown(url), file, entries), f"{entries} entries imported")
    return FINE


@contextmanager
def _written(file: str) -> Iterator[BinaryIO]:
    """A file that appears whole, under its name, or not at all."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file).absolute()
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as out:
            yield out
            out.flush()
            sync_file(out.fileno())
        Path(beside).rename(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


@contextmanager
def _read(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with Path(file).open("rb") as lines:
            yield lines
    except FileNotFoundError:
        raise click.UsageError(f"there is no file {file}") from None


def _bounded(lines: BinaryIO) -> Iterator[bytes]:
    """Line by line, none longer than any entry can be."""
    while line := lines.readline(LONGEST + 2):
        yield line


def _shown(url: str) -> str:
    """Without whatever a URL may carry of passwords."""
    return url if "@" not in url else f"{url.partition('://')[0]}://…@{url.rpartition('@')[2]}"


check_option = click.option("--verify/--no-verify", "check", default=True, help="fold its journal too  [default: yes]")


@click.command()
@click.argument("file", type=click.Path())
@check_option
@url_option
@as_json
def backup(url: str | None, file: str, check: bool, in_json: bool) -> int:
    """Copy an SQLite file, or a log's directory, as of one moment, while it is in use. Opened and verified before it is named.

    \b
    Example:
      holdkit backup --url sqlite:///holds.db holds-2026-11-15.db
    """
    url = chosen(url)
    must_exist(url)
    with bar("copying") as progress:
        entries = back_up(url, Path(file), progress, verify=check)
    Output(in_json).say(CarryDocument(url, file, entries), f"{entries} entries in {file}")
    return FINE


@click.command()
@click.argument("file", type=click.Path())
@click.option("--force", is_flag=True, help="replace what is there, if nobody has it open")
@check_option
@url_option
@as_json
def restore(url: str | None, file: str, force: bool, check: bool, in_json: bool) -> int:
    """Put a copy of a backup where --url says. Cursors that had seen more than it has are lost, and say so.

    \b
    Example:
      holdkit restore --url sqlite:///holds.db holds-2026-11-15.db --force
    """
    url = chosen(url)
    with bar("copying") as progress:
        entries = put_back(Path(file), url, progress, force=force, verify=check)
    Output(in_json).say(CarryDocument(url, file, entries), f"{entries} entries restored")
    return FINE
