"""Write the table of the server's settings into docs/operating.md, from the settings themselves (`make gen`).

`--check` writes nothing and fails if the page is not current.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from holdkit.server.configuration import SETTINGS, written

PAGE: Final = Path(__file__).resolve().parent.parent / "docs/operating.md"
BEGIN: Final = "<!-- settings: written by make gen -->\n"
END: Final = "<!-- end of settings -->\n"


def table() -> str:
    """One row per setting, in the order of `holdkit serve --help`."""
    rows = [f"| `{one.name}` | {written(one.default)} | {one.description} |" for one in SETTINGS.values()]
    return "\n".join(["| Setting | Default | What it is |", "|---|---|---|", *rows]) + "\n"


def main(arguments: list[str]) -> int:
    """Write the table, or check it."""
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if "--check" in arguments:
        if wanted != text:
            print("docs/operating.md: the settings have changed: make gen", file=sys.stderr)
            return 1
        return 0
    if wanted != text:
        PAGE.write_text(wanted, "utf-8")
        print("docs/operating.md")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
