"""The documents as tests see them: fenced blocks, tables, backticked names, links."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_fence = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Block(Struct, frozen=True):
    """One fenced block: its language, its text, the line it starts on, and where its text begins and ends."""

    language: str
    text: str
    line: int
    start: int
    end: int


def blocks(text: str) -> list[Block]:
    """Every fenced block of a page, in order."""
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1, m.start(), m.end()) for m in _fence.finditer(text)]


def prose(path: Path) -> str:
    """A page without its fenced blocks."""
    return _fence.sub("", path.read_text("utf-8"))


def backticked(path: Path) -> list[str]:
    """Every backticked word of a page's prose."""
    return re.findall(r"`([^`\n]+)`", prose(path))


def table_rows(path: Path) -> list[list[str]]:
    """The cells of every table row, headings and rulers left out."""
    rows: list[list[str]] = []
    heading = True
    for line in prose(path).splitlines():
        if not line.startswith("|"):
            heading = True
        elif set(line) <= set("|-: "):
            heading = False
        elif not heading:
            rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def resolve(name: str) -> object:
    """What a dotted name such as ``holdkit.core.decide.decide`` stands for; raises if there is no such thing."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            annotations = getattr(found, "__annotations__", {})
            found = annotations[part] if part in annotations and not hasattr(found, part) else getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def exists(path: str) -> bool:
    """Whether a path, or a test such as ``tests/unit/core/test_x.py::test_y``, is there."""
    file, *names = path.split("::")
    if not (ROOT / file).exists():
        return False
    source = (ROOT / file).read_text("utf-8") if names else ""
    return all(re.search(rf"^\s*(async def|def|class) {re.escape(name)}\b", source, re.MULTILINE) for name in names)
