"""Run mutmut on the core and demand a share of killed mutants.

A mutant that no test reaches counts as alive: untested is not the same as unneeded. One that runs for ever counts as
killed, for the suite would not have passed. Without tests that fail on a changed rule, coverage says nothing.

All of them take an hour, so one commit tries one sixth, the next commit another. Where the time does not suffice, those that were
tried are judged, and the rest are counted.

A line a minute tells how far it is, and the survivors are printed with what was changed, whatever the score. What mutmut
itself says is in `.build/mutmut.log`.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.mutmut_safely import PART, belongs

MUTANTS = Path("mutants")
LOG = Path(".build/mutmut.log")
MUTMUT = (sys.executable, "-m", "tools.mutmut_safely")
KILLED = ("killed", "timeout", "segfault", "caught by type check")
NOT_TRIED = "not checked"
PROGRESS = re.compile(r"(\d+)/(\d+) .*?🙁 (\d+)")
EVERY = 60.0
"""Seconds between two lines of progress."""
LEFT = 2.0
"""How many mutants, as a share of those that were tried, may be left when the time is over."""
PARTS = 6
"""A commit tries one of so many parts."""
SHOWN = 500
"""Survivors that are shown: each takes a third of a second."""


def verdicts(listing: str) -> dict[str, str]:
    """Each mutant's verdict, from what `mutmut results --all` lists."""
    told = [line.strip().rpartition(": ") for line in listing.splitlines() if ": " in line]
    return {name: verdict for name, _, verdict in told if verdict != "skipped"}


def part_of_commit(parts: int) -> str:
    """Which part this commit tries, as `2/6`: each commit another than the one before it."""
    counted = subprocess.run(["git", "rev-list", "--count", "HEAD"], check=False, capture_output=True, text=True)
    commits = int(counted.stdout) if counted.returncode == 0 else 0
    return f"{commits % parts + 1}/{parts}"


def score(found: Mapping[str, str]) -> tuple[int, int, float]:
    """Killed, tried and the share in percent. Nothing to kill is no success."""
    tried = [verdict for verdict in found.values() if verdict != NOT_TRIED]
    killed = sum(verdict in KILLED for verdict in tried)
    return killed, len(tried), 100.0 * killed / len(tried) if tried else 0.0


def survivors(found: Mapping[str, str]) -> list[tuple[str, str]]:
    """Name and verdict of those that were tried and that no test killed."""
    return [(name, verdict) for name, verdict in found.items() if verdict not in (*KILLED, NOT_TRIED)]


def changed(diff: str) -> list[str]:
    """The lines of a unified diff that differ, without its head."""
    return [line for line in diff.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]


def progress(log: str) -> str | None:
    """The last that mutmut has said about how far it is."""
    said = PROGRESS.findall(log)
    return f"{said[-1][0]} of {said[-1][1]} mutants, {said[-1][2]} alive" if said else None


def bounded(command: Sequence[str], log: Path, seconds: float, every: float = EVERY) -> int | None:
    """Run it with its words going to a file, and say how far it is; its exit code, or None if it was stopped, with all that
    it started, when the time was over."""
    log.parent.mkdir(exist_ok=True)
    # Examples are the same each time, and so are the survivors.
    environment = {**os.environ, "CI": os.environ.get("CI", "true")}
    began = time.monotonic()
    with log.open("wb") as words:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=words, stderr=words, env=environment, start_new_session=True
        )
        try:
            while (left := began + seconds - time.monotonic()) > 0:
                try:
                    process.wait(min(every, left))
                except subprocess.TimeoutExpired:
                    told = progress(log.read_text(encoding="utf-8", errors="replace")) or "preparing"
                    print(f"{(time.monotonic() - began) / 60:5.1f} min: {told}", flush=True)
                else:
                    return process.returncode
            return None
        finally:
            end_group(process)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Whatever of it is left."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def tell(alive: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Each with what was changed, in a form that a test can be written from."""
    for name, verdict in alive:
        shown = subprocess.run([*MUTMUT, "show", name], check=False, capture_output=True, text=True).stdout
        yield "\n    ".join([f"{verdict}: {name}", *changed(shown)])


def judge(threshold: float, part: str) -> int:
    """The figures of the last run, its survivors, and whether that will do."""
    listed = subprocess.run([*MUTMUT, "results", "--all", "true"], check=False, capture_output=True, text=True)
    found = {name: verdict for name, verdict in verdicts(listed.stdout).items() if belongs(name, part)}
    if listed.returncode != 0 or not found:
        print(f"mutmut left no results; the last that it said, from {LOG}:", file=sys.stderr)
        print(LOG.read_text(encoding="utf-8", errors="replace")[-3000:] if LOG.exists() else "", file=sys.stderr)
        return 1
    alive = survivors(found)
    for said in tell(alive[:SHOWN]):
        print(said, flush=True)
    if len(alive) > SHOWN:
        print(f"and {len(alive) - SHOWN} more: `.venv/bin/mutmut results`, `.venv/bin/mutmut show NAME`")
    killed, tried, share = score(found)
    print(f"killed {killed} of {tried} mutants of part {part}: {share:.1f} % (at least {threshold:g} % wanted)")
    if not_tried := len(found) - tried:
        print(
            f"{not_tried} were not tried: the time was over, or the run broke off; {LOG} has its words", file=sys.stderr
        )
        if not_tried > LEFT * tried:
            return 1
    return 0 if share >= threshold else 1


def main() -> int:
    """Run (unless told only to read), print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("threshold", type=float, help="least share of killed mutants, in percent")
    parser.add_argument("--read-only", action="store_true", help="judge the results of the last run")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--minutes", type=float, default=20.0, help="the run is stopped then; if too many are left, it has failed"
    )
    parser.add_argument(
        "--part", help="try this part of the mutants, such as 2/6; 1/1 tries all (default: by the commit)"
    )
    options = parser.parse_args()
    part = options.part or part_of_commit(PARTS)
    os.environ[PART] = part
    if not options.read_only:
        # mutmut keeps its verdicts when only tests have changed, so a weakened suite would still look strong: begin anew.
        shutil.rmtree(MUTANTS, ignore_errors=True)
        code = bounded([*MUTMUT, "run", "--max-children", str(options.jobs)], LOG, options.minutes * 60)
        if code is None:
            print(f"not over after {options.minutes:g} minutes, and stopped", file=sys.stderr)
        elif code != 0:
            print(f"mutmut ended with {code}", file=sys.stderr)
    return judge(options.threshold, part)


if __name__ == "__main__":
    sys.exit(main())
