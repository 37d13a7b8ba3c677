"""Run a command twice while four processes keep every processor busy: a test that depends on the time it takes fails.

python -m tools.steady make test
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time

BUSY, RUNS = 4, 2


def spin() -> None:
    """Be busy for as long as the parent lives."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    while parent.is_alive():
        for _ in range(1_000_000):
            pass


def main(command: list[str]) -> int:
    """Run the command; returns the exit code of the first run that failed, or 0."""
    for _ in range(BUSY):
        multiprocessing.get_context("spawn").Process(target=spin, daemon=True).start()
    for run in range(1, RUNS + 1):
        began = time.monotonic()
        code = subprocess.run(command, check=False).returncode
        print(f"steady: run {run} of {RUNS} ended with {code} after {time.monotonic() - began:.0f} s")
        if code:
            return code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
