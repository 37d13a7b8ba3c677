"""Counts what was tried, and prints how to repeat it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from tests.faults.trials import Verdict


class TrialCounts:
    """Counts trials by what was disturbed; an empty run cannot pass."""

    def __init__(self) -> None:
        self.tried: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.refused = self.unknown = 0
        self.failures: list[str] = []

    def add(self, kind: str, again: str, verdict: Verdict) -> Verdict:
        """Take in one trial; `again` is the line that repeats it."""
        self.tried[kind] += 1
        self.met[kind] += verdict.fired > 0
        self.refused += verdict.refused
        self.unknown += verdict.unknown
        if verdict.violations:
            self.failures.append(f"python -m tests.faults.repeat {again}\n  " + "\n  ".join(verdict.violations))
        elif not verdict.fired:
            self.failures.append(f"python -m tests.faults.repeat {again}\n  the fault was never met")
        return verdict

    def check(self, record: Callable[[str, object], None]) -> None:
        """Print the totals; fail with the first few failures, each with the line that repeats it."""
        total = sum(self.met.values())
        words = f"{total} faults met: {_list(self.met)}; {self.refused} answered none, {self.unknown} unknown"
        record("faults", words)
        print(words)  # noqa: T201
        assert not self.failures, f"{len(self.failures)} failed\n" + "\n".join(self.failures[:5])
        assert total > 0
        assert self.met == self.tried


def _list(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {number}" for kind, number in _sorted(counts.items()))


def _sorted(items: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    return sorted(items, key=lambda item: (-item[1], item[0]))
