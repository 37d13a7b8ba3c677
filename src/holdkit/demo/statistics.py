"""The counters of the demo, what they check, and the summary. Does not use the kernel."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from msgspec import Struct, field

from holdkit import JournalEntry
from holdkit.journal import Action


class Killed(Struct):
    """The process that was killed during the sale, and its holds."""

    holds: int = 0
    units: int = 0
    came_back: int = 0
    """Holds of the killed process that had expired once their deadline passed."""


class Late(Struct):
    """Payments after the deadline: each confirm is refused, then `consume` requests the seats again."""

    refused: int = 0
    honoured: int = 0
    refunded: int = 0


class Race(Struct):
    """The race for the last seat."""

    rivals: int = 0
    winners: int = 0


class Summary(Struct):
    """What ``--json`` prints."""

    ok: bool = False
    problems: list[str] = field(default_factory=list)
    seats: int = 0
    sold: int = 0
    receipts: int = 0
    """Seats for which a buyer has a confirmation: must equal `sold`."""
    granted: int = 0
    confirmed: int = 0
    released: int = 0
    expired: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    replayed: int = 0
    overloaded: int = 0
    late: Late = field(default_factory=Late)
    killed: Killed = field(default_factory=Killed)
    race: Race = field(default_factory=Race)
    processes: int = 0
    buyers: int = 0
    """Concurrent buyers in all processes."""
    calls: int = 0
    """Calls answered in all processes during the sale, which took `seconds`."""
    seconds: float = 0.0
    calls_per_second: float = 0.0
    entries: int = 0
    commits: int = 0
    """Distinct slots of journal entries: all entries of one transaction have the same slot."""
    entries_per_commit: float = 0.0
    largest_commit: int = 0
    differences: int = 0
    """Differences that `verify` found."""


class Statistics:
    """Counts of all processes, and the journal as this process follows it."""

    def __init__(self, pool: str, seats: int) -> None:
        self.pool, self.seats = pool, seats
        self.counts: Counter[str] = Counter()
        self.actions: Counter[str] = Counter()
        self.per_moment: Counter[datetime] = Counter()
        self.receipts: dict[str, int] = {}
        self.problems: list[str] = []
        self.held = self.sold = 0

    @property
    def free(self) -> int:
        """Return how many seats are neither held nor sold."""
        return self.seats - self.held - self.sold

    @property
    def refused(self) -> dict[str, int]:
        """Return refusals by reason, most frequent first."""
        mark = "refused:"
        return {name.removeprefix(mark): n for name, n in self.counts.most_common() if name.startswith(mark)}

    def count(self, name: str, n: int = 1) -> None:
        """Count something."""
        self.counts[name] += n

    def add(self, counts: dict[str, int]) -> None:
        """Add the counts of another process."""
        self.counts.update(counts)

    def add_entry(self, entry: JournalEntry) -> None:
        """Count a journal entry of any process."""
        self.actions[entry.action] += 1
        self.per_moment[entry.at] += 1
        for effect in entry.pools:
            if effect.pool.id == self.pool:
                self.held, self.sold = effect.pool.held, effect.pool.consumed
            if effect.pool.held + effect.pool.consumed > effect.pool.total:
                self.problem(
                    f"journal entry {entry.position}: more units of {effect.pool.id} are in use than its total"
                )

    def add_receipts(self, receipts: dict[str, int]) -> None:
        """Add receipts: by hold id, the seats that its buyer was told are sold."""
        for hold, units in receipts.items():
            if hold in self.receipts:
                self.problem(f"hold {hold} was sold to two buyers")
            self.receipts[hold] = units

    def problem(self, text: str) -> None:
        """Record something that must not happen."""
        self.problems.append(text)

    def summary(self) -> Summary:
        """Return the figures so far."""
        commits = len(self.per_moment)
        entries = sum(self.per_moment.values())
        return Summary(
            seats=self.seats,
            sold=self.sold,
            receipts=sum(self.receipts.values()),
            granted=self.actions[Action.HOLD_HELD],
            confirmed=self.actions[Action.HOLD_CONFIRMED],
            released=self.actions[Action.HOLD_RELEASED],
            expired=self.actions[Action.HOLD_EXPIRED],
            refused=self.refused,
            replayed=self.counts["replayed"],
            overloaded=self.counts["overloaded"],
            late=Late(self.counts["late_refused"], self.counts["late_honoured"], self.counts["late_refunded"]),
            entries=entries,
            commits=commits,
            entries_per_commit=round(entries / commits, 1) if commits else 0.0,
            largest_commit=max(self.per_moment.values(), default=0),
        )
