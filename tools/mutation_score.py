"""Run mutmut on the core and demand a share of killed mutants.

A mutant that no test reaches counts as alive: untested is not the same as unneeded. One that runs for ever counts as
killed, for the suite would not have passed. Without tests that fail on a changed rule, coverage says nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

STATS = Path("mutants/mutmut-cicd-stats.json")
KILLED = ("killed", "timeout", "segfault", "caught_by_type_check")


def score(stats: Mapping[str, int]) -> tuple[int, int, float]:
    """Killed, total and the share in percent. Nothing to kill is no success."""
    killed = sum(stats.get(kind, 0) for kind in KILLED)
    total = stats["total"] - stats.get("skipped", 0)
    return killed, total, 100.0 * killed / total if total else 0.0


def main() -> int:
    """Run (unless told only to read), print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("threshold", type=float, help="least share of killed mutants, in percent")
    parser.add_argument("--read-only", action="store_true", help="judge the results of the last run")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    mutmut = [sys.executable, "-m", "mutmut"]
    if not options.read_only:
        # Its exit code is ignored on purpose: the figures below decide. A run that broke leaves mutants unchecked.
        # mutmut keeps its verdicts when only tests have changed, so a weakened suite would still look strong: begin anew.
        shutil.rmtree(STATS.parent, ignore_errors=True)
        subprocess.run([*mutmut, "run", "--max-children", str(options.jobs)], check=False)
    subprocess.run([*mutmut, "export-cicd-stats"], check=True, stdout=subprocess.DEVNULL)
    if not STATS.exists():
        print("mutmut left no results: run it by hand to see why", file=sys.stderr)
        return 1
    stats: dict[str, int] = json.loads(STATS.read_text(encoding="utf-8"))
    killed, total, share = score(stats)
    print(f"killed {killed} of {total} mutants: {share:.1f} % (at least {options.threshold:g} % wanted)")
    if share < options.threshold:
        print(
            "`.venv/bin/mutmut results` lists the survivors, `.venv/bin/mutmut show NAME` one of them", file=sys.stderr
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
