"""``holdkit backup`` and ``holdkit restore``: copies of what is kept in files."""

from __future__ import annotations

from pathlib import Path

import click

from ..kernel.backup import back_up
from ..kernel.backup import restore as put_back
from .opening import chosen, must_exist, url_option
from .progress import bar
from .shapes import CarryDocument
from .words import FINE, Output, as_json

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
