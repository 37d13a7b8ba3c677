"""`python -m holdkit.server`: the same as `holdkit serve`."""

from __future__ import annotations

import sys

from ..cli.root import run

if __name__ == "__main__":
    sys.exit(run(["serve", *sys.argv[1:]]))
