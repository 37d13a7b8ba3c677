"""Named SQL: loads the `.sql` files beside this module once, as named blocks.

A block is ``-- name: <name>``, a line that says why it exists, and one statement. Nothing here runs SQL, and no SQL is
written anywhere else in this package.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from types import MappingProxyType

_MARK = "-- name: "


@cache
def load() -> MappingProxyType[str, str]:
    """Every named statement of this engine."""
    blocks: dict[str, str] = {}
    for file in sorted(files(__package__).joinpath("sql").iterdir(), key=lambda path: path.name):
        if file.name.endswith(".sql"):
            for name, text in parse(file.read_text("utf-8")):
                if name in blocks:
                    raise ValueError(f"two statements are named {name}")
                blocks[name] = text
    return MappingProxyType(blocks)


TOGETHER = 32
"""Rows of one insert. sqlite3 gives up the interpreter's lock around every step: once per row is once too often."""


@cache
def load_together() -> MappingProxyType[str, str]:
    """The statements that insert one row, for many rows."""
    found = {}
    for name, text in load().items():
        head, values, row = text.rpartition("values ")
        if name.startswith("insert_") and values:
            found[name] = head + values + ", ".join([row] * TOGETHER)
    return MappingProxyType(found)


def parse(text: str) -> Iterator[tuple[str, str]]:
    """The blocks of one file, comments left out."""
    for block in text.split(_MARK)[1:]:
        name, _, body = block.partition("\n")
        lines = [line for line in body.splitlines() if line and not line.startswith("--")]
        yield name.strip(), "\n".join(lines)


def migrations() -> list[tuple[int, str, str]]:
    """Number, name and text of every migration, in order."""
    return sorted(
        (int(file.name[:4]), file.name[:-4], file.read_text("utf-8"))
        for file in files(__package__).joinpath("migrations").iterdir()
        if file.name.endswith(".sql")
    )
