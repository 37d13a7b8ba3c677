"""Write the tables of the settings and limits into the pages, from the settings and limits themselves (`make gen`): the server's
settings into docs/operating.md, the limits of the data into docs/semantics.md.

`--check` writes nothing and fails if a page is not current.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Final

from holdkit import Limits
from holdkit.core.bounds import BOUNDS
from holdkit.core.values import spelled
from holdkit.kernel import limits
from holdkit.server.configuration import GROUPS, SETTINGS, written

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"


def settings_table() -> str:
    """One table per group, after that of the settings without a group; one row per setting, in the order of `holdkit serve --help-all`."""
    tables = []
    for group in ("", *GROUPS):
        rows = [
            f"| `{one.name}` | {written(one.default)} | {one.description} |"
            for one in SETTINGS.values()
            if one.group == group
        ]
        head = [f"**`[{group}]`**: {GROUPS[group]}", ""] if group else []
        tables.append("\n".join([*head, "| Setting | Default | What it is |", "|---|---|---|", *rows]) + "\n")
    return "\n".join(tables)


def limits_table() -> str:
    """One row per limit of `holdkit.Limits`, in the order of its fields."""
    texts, defaults = descriptions(), Limits()
    rows = [
        f"| `{name}` | {shown(name, getattr(defaults, name))} | {shown(name, bound.least)} | {shown(name, bound.greatest)} "
        f"| {'yes' if bound.is_stored else ''} | {texts[name]} |"
        for name, bound in BOUNDS.items()
    ]
    head = ["| Limit | Default | Least | Greatest | Stored | What it bounds |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *rows]) + "\n"


def shown(name: str, value: object) -> str:
    """A value of a limit as text: an interval as it is written, None as no bound."""
    if isinstance(value, timedelta):
        value = value // timedelta(microseconds=1)
    if value is None:
        return "none"
    assert isinstance(value, int)
    return spelled(value) if BOUNDS[name].is_interval else f"{value:,}"


def descriptions() -> dict[str, str]:
    """What the source says behind each field of `Limits`."""
    tree = ast.parse(Path(limits.__file__).read_text("utf-8"))
    (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Limits"]
    found: dict[str, str] = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found


PAGES: Final[dict[str, tuple[str, Callable[[], str]]]] = {
    "operating.md": ("settings", settings_table),
    "semantics.md": ("limits", limits_table),
}
"""By page: the name of its table, and what makes it."""


def main(arguments: list[str]) -> int:
    """Write the tables, or check them."""
    stale = [name for name, (what, table) in PAGES.items() if _write(DOCS / name, what, table(), arguments)]
    for name in stale:
        print(f"docs/{name}: its table has changed: make gen" if "--check" in arguments else f"docs/{name}")
    return 1 if stale and "--check" in arguments else 0


def _write(page: Path, what: str, table: str, arguments: list[str]) -> bool:
    """Put the table into its page. Return whether the page was not current."""
    begin, end = f"<!-- {what}: written by make gen -->\n", f"<!-- end of {what} -->\n"
    text = page.read_text("utf-8")
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    assert found, f"{page} has no place for the table of {what}"
    wanted = f"{before}{begin}\n{table}\n{end}{after}"
    if wanted != text and "--check" not in arguments:
        page.write_text(wanted, "utf-8")
    return wanted != text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
