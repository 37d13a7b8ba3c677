"""What `import holdkit` costs, compared with what any asyncio program with msgspec pays: ``python -m bench.import_time``.

Each line is the median over processes that alternate with those of the other lines, so that a busy machine slows all of them alike;
the start of Python itself is subtracted. ``--modules`` lists the modules behind a statement, by their own time (`-X importtime`).
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from typing import Final

NOTHING: Final = "pass"
BASE: Final = "import msgspec, asyncio"
TARGET: Final = 1.5
"""`import holdkit` may cost this many times the base."""
STATEMENTS: Final = (
    NOTHING,
    BASE,
    "import holdkit",
    "from holdkit import connect",
    "import holdkit; holdkit.connect('memory://').close()",
)


def seconds(statement: str) -> float:
    """How long a new process takes for a statement."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - began


def measure(rounds: int) -> dict[str, float]:
    """The median seconds of each statement, without the start of Python. The first round only warms the disk's cache."""
    taken: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    for turn in range(rounds + 1):
        for statement in STATEMENTS:
            found = seconds(statement)
            if turn:
                taken[statement].append(found)
    medians = {statement: statistics.median(found) for statement, found in taken.items()}
    return {statement: found - medians[NOTHING] for statement, found in medians.items() if statement != NOTHING}


def modules(statement: str, count: int) -> list[str]:
    """The lines of `-X importtime` with the most time of their own, slowest first."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", statement], capture_output=True, text=True, check=True
    )
    lines = [line.split(":", 1)[1] for line in done.stderr.splitlines() if line.startswith("import time:")]
    numbered = [line for line in lines if line.split("|")[0].strip().isdigit()]
    return sorted(numbered, key=lambda line: int(line.split("|")[0]), reverse=True)[:count]


def main(arguments: list[str] | None = None) -> int:
    """Print the table; 1 if `import holdkit` costs more than it may."""
    parser = argparse.ArgumentParser(prog="python -m bench.import_time", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--modules", metavar="STATEMENT", help="list the slowest modules behind this statement instead")
    options = parser.parse_args(arguments)
    if options.modules:
        print("\n".join(modules(options.modules, 30)))
        return 0
    found = measure(options.rounds)
    for statement, cost in found.items():
        print(f"{cost * 1000:7.1f} ms  {cost / found[BASE]:5.2f} x  {statement}")
    return int(found["import holdkit"] > TARGET * found[BASE])


if __name__ == "__main__":
    sys.exit(main())
