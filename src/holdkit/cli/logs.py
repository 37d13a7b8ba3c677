"""``holdkit log``: look at a log's files without opening it. Nothing is locked or changed, so it may be in use."""

from __future__ import annotations

from datetime import UTC, datetime

import click
from msgspec import structs, to_builtins

from ..core.codec import encode_entry
from ..core.entries import Entry
from ..engines.log.inspecting import Seen, entries_of, look
from .words import FINE, FOUND, as_json, say


@click.group()
def log() -> None:
    """Look at the files of a log."""


@log.command()
@click.argument("directory", type=click.Path())
@as_json
def check(directory: str, in_json: bool) -> int:
    """Walk every segment and snapshot: frames, entries, a torn tail, damage with its offset."""
    seen = look(directory)
    say({"directory": directory, "ok": seen.ok, **to_builtins(structs.asdict(seen))}, in_json, *_told(seen))
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
    """Every entry, one per line."""
    for entry in entries_of(directory, first):
        click.echo(encode_entry(entry) if in_json else _line(entry))
    return FINE


def _line(entry: Entry) -> str:
    try:
        moment = datetime.fromtimestamp(entry.slot / 1e6, tz=UTC).isoformat(timespec="microseconds")
    except (ValueError, OverflowError, OSError):  # a slot of a simulation is whatever its author said
        moment = str(entry.slot)
    parts = [f"{entry.seq:>8}", moment, f"{entry.action:<22}", entry.subject]
    parts += [f"{name}={value}" for name in ("tenant", "actor", "op", "reason") if (value := getattr(entry, name))]
    return "  ".join(parts)
