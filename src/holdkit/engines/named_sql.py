"""Named SQL: an engine's `.sql` files as named blocks, and its migrations.

A block is ``-- name: <name>``, a line that says why it exists, and one statement. What several statements have in common is a
*part*: ``-- part: <name>``, such a line, and text that stands wherever a statement, or another part, says ``{name}``. Nothing here
runs SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Final

NO_PARTS: Final[Mapping[str, str]] = {}
_MARK = re.compile(r"^-- (name|part): (\w+)\n", re.MULTILINE)
_PART = re.compile(r"\{(\w+)\}")
_COMMENT = re.compile(r"--[^\n]*")
_STATEMENT = re.compile(r"(?:[^;$]|\$\$.*?\$\$|\$)+", re.DOTALL)


def load_blocks(package: str, folder: str = "sql", parts: Mapping[str, str] = NO_PARTS) -> dict[str, str]:
    """Load every named statement of the files in the package's folder. `parts` are further parts, such as lists of columns that are
    computed."""
    found: dict[str, dict[str, str]] = {"name": {}, "part": {**parts}}
    for file in sorted(files(package).joinpath(folder).iterdir(), key=lambda path: path.name):
        if file.name.endswith(".sql"):
            for kind, name, text in parse(file.read_text("utf-8")):
                if name in found[kind]:
                    raise ValueError(f"two blocks are named {name}")
                found[kind][name] = text
    return {name: completed(text, found["part"]) for name, text in found["name"].items()}


def parse(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the blocks of one file: whether each is a statement (name) or a part, its name, and its text without comments."""
    _, *blocks = _MARK.split(text)
    for kind, name, body in zip(*[iter(blocks)] * 3, strict=True):
        yield kind, name, "\n".join([line for line in body.splitlines() if line and not line.startswith("--")])


def completed(text: str, parts: Mapping[str, str]) -> str:
    """Insert the parts into a text."""
    while (named := _PART.search(text)) is not None:
        if named[1] not in parts:
            raise ValueError(f"no part is named {named[1]}")
        text = text.replace(named[0], parts[named[1]])
    return text


def load_migrations(package: str) -> list[tuple[int, str, str]]:
    """Load number, name and text of every migration under the package's folder `migrations`, in order."""
    return sorted(
        (int(file.name[:4]), file.name[:-4], file.read_text("utf-8"))
        for file in files(package).joinpath("migrations").iterdir()
        if file.name.endswith(".sql")
    )


def statements_of(text: str) -> list[str]:
    """Split a migration into statements, without comments; text between `$$` belongs to one statement. (None of ours has a semicolon or
    `--` in a string.)"""
    return [stripped for each in _STATEMENT.findall(_COMMENT.sub("", text)) if (stripped := each.strip())]
