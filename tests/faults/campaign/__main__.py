"""The campaign: `python -m tests.faults.campaign`, or `make faults`.

    make faults                                              all of it
    make faults ARGS='--only failovers --rounds 8'           a part, scaled
    make faults ARGS='--only power_cuts --seed 7 --json -'   repeated from its seed, as JSON

Exits with 1 if anything was lost, doubled, denied, oversold, shown and gone, or unsound, if a canary lost nothing, or if a goal in time was
missed.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from tests.faults.campaign import disk, failovers, guarded, local_faults, report
from tests.faults.campaign.canaries import GUARDED
from tests.faults.campaign.check import Verdict
from tests.faults.campaign.failovers import CUT_BACK, FAILOVERS
from tests.faults.campaign.ledger import now
from tests.faults.campaign.pair import Pair
from tests.faults.campaign.report import Canary, Part, Report
from tests.faults.campaign.stores import STORES

PARTS: Final = {
    "failovers": 64,
    "cancelled_waits": 6,
    "crash_alone": 6,
    "power_cuts": 300,
    "crashes": 120,
    "full_disks": 30,
    "guarded_batches": 20,
}
"""Faults of each kind, in a whole campaign."""
EXAMPLES: Final = 20
TRIES: Final = 8
"""How many faults a canary may survive."""


class Campaign:
    """Runs parts, tells how it goes on, and collects."""

    def __init__(self, seed: int, *, canaries: bool = True) -> None:
        self.report = Report(seed=seed, commit=report.commit())
        self._canaries = canaries
        self._began = now()

    def run(self, name: str, number: int) -> None:
        """One part, and the canaries that show that it would notice."""
        if name in ("power_cuts", "full_disks") and (why := disk.missing()):
            self.report.skipped.append(f"{name}: {why}")
            self.tell(f"{name}: NOT RUN: {why}")
            return
        began = now()
        self.part = Part(name=name, wanted=number)
        self.report.parts.append(self.part)
        if self._canaries:
            self.run_canaries(name)
        else:
            self.report.skipped.append(f"canaries of {name}: left out by --no-canaries")
        if name in ("failovers", "cancelled_waits", "crash_alone"):
            self.fail_over(name, number)
        elif name == "guarded_batches":
            self.stress(number)
        else:
            self.result(name, number)
        self.part.seconds = now() - began

    def fail_over(self, name: str, number: int) -> None:
        """Rounds of eight on one pair, in an order of their own."""
        kinds = (list(FAILOVERS) if name == "failovers" else [name]) * number
        for first in range(0, number, len(FAILOVERS)):
            some = kinds[first : min(first + len(FAILOVERS), number)]
            seed = self.report.seed + first
            random.Random(seed).shuffle(some)
            with Pair() as pair, failovers.Trial(pair, seed) as trial:
                for kind in some:
                    found = trial.round(kind)
                    self.report.from_fault.setdefault(kind, []).extend(found.from_fault)
                    self.report.from_writable.setdefault(kind, []).extend(found.from_writable)
                    self.part.add(found.verdict, found.cancelled)
                    served = (
                        f"served again after {max(found.from_fault):.2f} s, {found.guarded} by the guard"
                        + ", fenced" * found.fenced
                    )
                    self.progress(kind, found.verdict, served, seed)

    def stress(self, number: int) -> None:
        """Nothing fails; processes compete."""
        for index, found in enumerate(guarded.trials(number, self.report.seed)):
            self.part.add(found.verdict, found.passed)
            words = f"{found.passed} by the guard, which returned {found.returned} due legs"
            self.progress("competing processes", found.verdict, words, self.report.seed + index)

    def result(self, name: str, number: int) -> None:
        """The engines in turn, each with a share."""
        for index, store in enumerate(STORES):
            share = number // len(STORES) + (index < number % len(STORES))
            for first in range(0, share, local_faults.LIVES):
                seed = self.report.seed + first
                for found in local_faults.PARTS[name](store, min(local_faults.LIVES, share - first), seed):
                    self.part.add(found.verdict, found.during_recovery)
                    self.progress(f"{store}", found.verdict, "", seed)

    def run_canaries(self, name: str) -> None:
        """Run the canaries; each must lose something."""
        for canary, losses in canaries(name, self.report.seed):
            lost = next((each for each in losses if each), 0)
            self.report.canaries.append(Canary(canary, lost))
            self.tell(f"canary {canary}: lost {lost}")

    def progress(self, kind: str, verdict: Verdict, more: str, seed: int) -> None:
        """A line per fault."""
        part = self.part
        self.tell(
            f"{part.name} {part.faults}/{part.wanted} {kind}: {verdict.done} done, {verdict.refused} refused, "
            f"{verdict.unknown} unknown, {len(verdict.violations)} wrong{'; ' if more else ''}{more}"
        )
        again = f"make faults ARGS='--only {part.name} --seed {seed}'"
        for words in verdict.violations[:EXAMPLES]:
            self.tell(f"    {words}")
            if len(self.report.examples) < EXAMPLES:
                self.report.examples.append(f"{part.name} {kind}: {words}  ({again})")

    def tell(self, words: str) -> None:
        """With the seconds since the beginning."""
        sys.stderr.write(f"{now() - self._began:7.1f}  {words}\n")
        sys.stderr.flush()


def canaries(name: str, seed: int) -> Iterator[tuple[str, Iterator[int]]]:
    """The canaries of a part: stores that break one promise; and of each how much every fault took back."""
    if name == "failovers":
        rounds = (failovers.asynchronous(seed + n) for n in range(TRIES))
        yield "asynchronous standby", (len(each.verdict.lost) for each in rounds)
    if name in CUT_BACK:
        reads = failovers.canary("unproved", name, TRIES, seed)
        yield f"{name}, unproved reads", (len(each.verdict.lost) for each in reads)
        pages = failovers.canary("unproved pages", name, TRIES, seed)
        yield f"{name}, unproved pages of followers", (len(each.verdict.gone) for each in pages)
    if name == "power_cuts":
        for store in STORES:
            found = local_faults.power_cuts(store, TRIES, seed, unsafe=True)
            yield f"{store} without sync", (len(each.verdict.violations) for each in found)
    if name == "crashes":
        found = local_faults.crashes("postgres", TRIES, seed, unsafe=True)
        yield "synchronous_commit=off", (len(each.verdict.violations) for each in found)
    if name == "guarded_batches":
        for canary in GUARDED:
            yield canary, (len(each.verdict.violations) for each in guarded.trials(TRIES, seed, canary))


def command(options: argparse.Namespace) -> str:
    """The command that repeats this run."""
    said = [f"--only {options.only}"] if options.only != ",".join(PARTS) else []
    said += [f"--rounds {options.rounds}"] if options.rounds is not None else []
    said += ["--no-canaries"] if options.no_canaries else []
    return f"make faults ARGS='{' '.join([*said, f'--seed {options.seed}'])}'"


def main() -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaign", description=__doc__)
    parser.add_argument("--only", default=",".join(PARTS), help=f"parts, with commas between: {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, help="faults of each part")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="repeats a campaign")
    parser.add_argument("--json", metavar="FILE", help="write the report there; - for the terminal")
    parser.add_argument("--no-canaries", action="store_true", help="for a slice: they were run with another")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers, mounts and files go with us
    campaign = Campaign(options.seed, canaries=not options.no_canaries)
    names = options.only.split(",")
    if unknown := set(names) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    campaign.tell(f"seed {options.seed}, commit {campaign.report.commit}")
    for name in names:
        campaign.run(name, PARTS[name] if options.rounds is None else options.rounds)
    found = campaign.report
    sys.stdout.write(f"\n{report.table(found)}\n\nfor docs/reliability.md:\n{report.row(found, command(options))}\n")
    if options.json:
        text = msgspec.json.format(msgspec.json.encode(found)).decode() + "\n"
        sys.stdout.write(text) if options.json == "-" else Path(options.json).write_text(text)
    return 1 if found.failures() or found.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
