"""The size of the house, kept in the part `house` of tools/budget.json: lines and files of each package, the walk of one hold
(tools/walk.py), and what makes code and pages hard to read, counted.

Only hand-written files count. `tests/acceptance/test_house.py` fails if a figure is above its bound, or more than `SLACK` below it,
and prints the line to write. ``make gen`` writes the bounds that have become too high; ``python -m tools.gen_api --budget --grow``
raises bounds too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from . import api_budget, walk

Figures = Mapping[str, Mapping[str, int]]

SLACK: Final = 0.02
"""How far a figure may be below its bound, as a share of the bound, before the bound has to follow."""
PACKAGES: Final = (
    "core", "engines", "kernel", "faces", "wire", "operations", "server", "client", "cli", "contrib", "testing",
)  # fmt: skip
REST: Final = "the rest"
ALL: Final = "all"
LONG_CALL: Final = 6
"""Positional arguments of a call that should have keywords."""
WEAK: Final = frozenset(
    ["one", "found", "its", "rest", "own", "gone", "late", "done", "said", "told", "given", "left", "asked", "shown"]
)
"""Names of local variables that do not say what the variable holds."""
ROWS: Final = frozenset(["row", "rows", "found"])
"""Names of rows that are read by number."""
RIDDLES: Final = re.compile(
    r"\b(?=(?:the same of|the same for|the same with|so many|so long|of which|whoever|whom|goes on|go on|as far as|by what|of what|"
    r"what there is|in vain|is told|are told|nobody|somebody|whose turn|as many as|beside each)\b)"
)
"""Where a phrase begins that does not say who does what; phrases may overlap."""


def sizes() -> dict[str, dict[str, int]]:
    """Count the lines and files of each package."""
    lines, files = dict.fromkeys([*PACKAGES, REST, ALL], 0), dict.fromkeys([*PACKAGES, REST, ALL], 0)
    for path in walk.sources(walk.SOURCE):
        folder = path.relative_to(walk.SOURCE).parts[0]
        for package in (folder if folder in PACKAGES else REST, ALL):
            lines[package] += len(path.read_text("utf-8").splitlines())
            files[package] += 1
    return {"lines": lines, "files": files}


def walks(url: str | None = None) -> dict[str, dict[str, int]]:
    """Count the files and changes of file of each walk; `url` as in `walk.walks`.

    In a process of its own: threads of this one would be counted too.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        walked = process.submit(walk.walks, url).result()
    return {
        "files of a walk": {name: counted.files for name, counted in walked.items()},
        "changes of a walk": {name: counted.changes for name, counted in walked.items()},
    }


def language() -> dict[str, dict[str, int]]:
    """Count what makes the code and the pages hard to read."""
    pages = [walk.ROOT / "README.md", *(walk.ROOT / "docs").rglob("*.md")]
    in_pages = sum(riddles_of_page(path.read_text("utf-8")) for path in pages if path.parent.name != "adr")
    code = language_of(path.read_text("utf-8") for path in walk.sources(walk.SOURCE))
    return {"language": {**code, "riddles in pages": in_pages}}


def language_of(sources: Iterable[str]) -> dict[str, int]:
    """Count what makes these sources hard to read."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    texts = [docstring for node in nodes if (docstring := docstring_of(node))]
    return {
        "functions with a weak local": sum(map(has_weak_local, nodes)),
        "row[number]": sum(map(is_row_by_number, nodes)),
        "calls with six positional arguments": sum(map(is_long_call, nodes)),
        "riddles in docstrings": sum(len(RIDDLES.findall(text)) for text in texts),
        "docstrings that begin with The same": sum(text.startswith("the same") for text in texts),
    }


def docstring_of(node: ast.AST) -> str:
    """The docstring of a node in small letters, empty if it has none."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
        return (ast.get_docstring(node) or "").lower()
    return ""


def has_weak_local(node: ast.AST) -> bool:
    """Whether this is a function that assigns to a weak name, in a comprehension too."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
        isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store) and name.id in WEAK for name in ast.walk(node)
    )


def is_row_by_number(node: ast.AST) -> bool:
    """Whether this reads `row[7]`."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, int)
        and isinstance(node.value, ast.Name)
        and node.value.id in ROWS
    )


def is_long_call(node: ast.AST) -> bool:
    """Whether this is a call with many positional arguments."""
    if not isinstance(node, ast.Call) or len(node.args) < LONG_CALL:
        return False
    return not any(isinstance(argument, ast.Starred) for argument in node.args)


def riddles_of_page(text: str) -> int:
    """Count the riddles of a page, its examples left out."""
    return len(RIDDLES.findall(re.sub(r"```.*?```", "", text, flags=re.DOTALL).lower()))


def all_figures() -> Figures:
    """Every figure of today."""
    return {**sizes(), **language(), **walks()}


def wrong_bounds(kept: Figures, measured: Figures) -> Iterator[tuple[str, str, int | None]]:
    """Give each bound that does not fit its figure: its part, its name, and the figure; None if it is a bound of nothing."""
    for part, figures in measured.items():
        bounds = kept.get(part, {})
        for name in [*figures, *(bounds.keys() - figures.keys())]:
            bound, figure = bounds.get(name), figures.get(name)
            if bound is None or figure is None or not bound * (1 - SLACK) <= figure <= bound:
                yield part, name, figure


def difference(kept: Figures, measured: Figures) -> list[str]:
    """The lines of the file that do not fit their figures, as they would have to be written."""
    return [
        f'{part}: remove "{name}"'
        if figure is None
        else f'{part}: "{name}" is {figure}, its bound is {kept.get(part, {}).get(name)}: write "{name}": {figure}'
        for part, name, figure in wrong_bounds(kept, measured)
    ]


def write(measured: Figures, *, grow: bool = False) -> None:
    """Write the figures whose bounds do not fit. Without `grow` a bound only falls."""
    document = api_budget.read()
    house = document["house"]
    for part, name, figure in list(wrong_bounds(house, measured)):
        bounds = house.setdefault(part, {})
        if figure is None:
            del bounds[name]
        elif grow or figure < bounds.get(name, 0):
            bounds[name] = figure
    api_budget.save(document)
