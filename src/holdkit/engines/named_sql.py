"""Named SQL: an engine's `.sql` files as named blocks, and its migrations.

A block is ``-- name: <name>``, a line that says why it exists, and one statement. Nothing here runs SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

_MARK = "-- name: "
_COMMENT = re.compile(r"--[^\n]*")


def load_blocks(package: str, folder: str = "sql") -> dict[str, str]:
    """Every named statement of the files in the package's folder."""
    blocks: dict[str, str] = {}
    for file in sorted(files(package).joinpath(folder).iterdir(), key=lambda path: path.name):
        if file.name.endswith(".sql"):
            for name, text in parse(file.read_text("utf-8")):
                if name in blocks:
                    raise ValueError(f"two statements are named {name}")
                blocks[name] = text
    return blocks


def parse(text: str) -> Iterator[tuple[str, str]]:
    """The blocks of one file, comments left out."""
    for block in text.split(_MARK)[1:]:
        name, _, body = block.partition("\n")
        lines = [line for line in body.splitlines() if line and not line.startswith("--")]
        yield name.strip(), "\n".join(lines)


def load_migrations(package: str) -> list[tuple[int, str, str]]:
    """Number, name and text of every migration under the package's folder `migrations`, in order."""
    return sorted(
        (int(file.name[:4]), file.name[:-4], file.read_text("utf-8"))
        for file in files(package).joinpath("migrations").iterdir()
        if file.name.endswith(".sql")
    )


def statements_of(text: str) -> list[str]:
    """The statements of a migration, one by one, comments left out. (None of ours has a semicolon or `--` in a string.)"""
    return [stripped for each in _COMMENT.sub("", text).split(";") if (stripped := each.strip())]
