"""``holdkit log``: look at a log's files without opening it. Nothing is locked or changed, so it may be in use."""

from __future__ import annotations

import click

from ..core.codec import encode_entry
from ..engines.log.inspection import Seen, entries_of, look
from .journal import line
from .shapes import LogDocument
from .words import FINE, FOUND, Output, as_json


@click.group()
def log() -> None:
    """Look at the files of a log.

    \b
    Example:
      holdkit log check ./log
    """


@log.command()
@click.argument("directory", type=click.Path())
@as_json
def check(directory: str, in_json: bool) -> int:
    """Walk every segment and snapshot: frames, entries, a torn tail, damage with its offset.

    \b
    Example:
      holdkit log check ./log --json
    """
    seen = look(directory)
    Output(in_json).say(LogDocument(directory, seen.ok, seen.segments, seen.snapshots, seen.frames, seen.entries, seen.damage),
                       *_told(seen))  # fmt: skip
    return FINE if seen.ok else FOUND


def _told(seen: Seen) -> list[str]:
    lines = []
    for segment in seen.segments:
        notes = ["sealed"] if segment.sealed else []
        if segment.torn_bytes:
            notes.append(f"torn tail of {segment.torn_bytes} bytes: the next opening cuts it off")
        lines.append(
            f"{segment.file}  {segment.bytes} bytes, {segment.frames} frames, {segment.entries} entries"
            + "".join(f", {note}" for note in notes)
        )
    for snapshot in seen.snapshots:
        what = f"behind frame {snapshot.after_frame}" if snapshot.good else "DAMAGED, or not of this log"
        lines.append(f"{snapshot.file}  {snapshot.bytes} bytes, {what}")
    if seen.damage is not None:
        return [*lines, f"DAMAGED: {seen.damage}"]
    return [*lines, f"{seen.frames} frames and {seen.entries} entries check"]


@log.command()
@click.argument("directory", type=click.Path())
@click.option("--from", "first", type=click.IntRange(1), default=1, help="begin with the entry of this number")
@click.option("--json", "in_json", is_flag=True, help="one JSON document per line, for programs")
def dump(directory: str, first: int, in_json: bool) -> int:
    """Every entry, one per line.

    \b
    Example:
      holdkit log dump ./log --from 100 --json
    """
    for entry in entries_of(directory, first):
        click.echo(encode_entry(entry) if in_json else line(entry))
    return FINE
