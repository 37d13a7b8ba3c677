"""``holdkit``: the command line. docs/cli.md lists every command, what it prints, and its exit codes."""

from __future__ import annotations

import sys
from importlib.util import find_spec

__all__ = ["main"]


def main() -> int:
    """Run one command. Errors become messages and exit codes, never a traceback."""
    missing = [name for name in ("click", "rich") if find_spec(name) is None]
    if missing:
        extra = "server" if sys.argv[1:2] == ["serve"] else "cli"  # the extra `server` brings both
        sys.stderr.write(f"holdkit: the command line needs {' and '.join(missing)}: pip install 'holdkit[{extra}]'\n")
        return 2
    from .root import run

    return run(sys.argv[1:])
