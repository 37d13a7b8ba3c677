"""Anchors: files outside the database to which the last seal of each lane is appended, as JSON lines (`seals.py` says why)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from ..core.model import Slot
from ..errors import EngineError


class AnchorLine(Struct, frozen=True, omit_defaults=True):
    """One line of an anchor file: a seal, without its salts."""

    lane: int
    last: int
    digest: str
    slot: Slot
    signature: str | None = None
    key_id: str | None = None


_anchor: Final = msgspec.json.Decoder(AnchorLine)


def append_lines(path: Path, lines: Iterable[AnchorLine]) -> None:
    """Append and sync. A line that a killed process has left unfinished is ended first."""
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                data = b"\n" + data
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def read_anchor(path: Path) -> Iterator[tuple[int, AnchorLine]]:
    """Yield the lines of an anchor file, with their numbers. Unfinished lines, which a killed process has left, are passed over."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield number, _anchor.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError):
                    if line.strip() and b"}" in line:
                        raise EngineError(f"line {number} of the anchor {path} is not a seal: it was changed") from None
    except FileNotFoundError:
        return
    except OSError as error:
        raise EngineError(f"cannot read the anchor {path}: {error.strerror or error}") from error
