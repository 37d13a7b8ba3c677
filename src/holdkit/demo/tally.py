"""What the demo counts, what it checks, and the summary it ends with. Never talks to an engine."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from holdkit import Action, JournalEntry


class Killed(Struct):
    """The process that was killed in the middle, and what became of its holds."""

    holds: int = 0
    units: int = 0
    came_back: int = 0
    """Holds of the dead process that were expired once their deadline had passed."""


class Late(Struct):
    """Payments that came after the deadline: every confirm is refused, then `consume` asks again."""

    refused: int = 0
    honoured: int = 0
    refunded: int = 0


class Race(Struct):
    """Rivals for one last unit."""

    rivals: int = 0
    winners: int = 0


class Summary(Struct):
    """What ``--json`` prints."""

    ok: bool = False
    problems: list[str] = field(default_factory=list)
    seats: int = 0
    sold: int = 0
    receipts: int = 0
    """Units for which a buyer was told "yes": must equal `sold`."""
    granted: int = 0
    confirmed: int = 0
    released: int = 0
    expired: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    replayed: int = 0
    turned_away: int = 0
    late: Late = field(default_factory=Late)
    killed: Killed = field(default_factory=Killed)
    race: Race = field(default_factory=Race)
    processes: int = 0
    buyers: int = 0
    """Buyers at the same time, over all processes."""
    calls: int = 0
    """Answered during the rush, by all processes; it took `seconds`."""
    seconds: float = 0.0
    calls_per_second: float = 0.0
    entries: int = 0
    commits: int = 0
    """Slots that have journal entries: all entries of one batch carry the slot of its transaction."""
    entries_per_commit: float = 0.0
    largest_commit: int = 0
    differences: int = 0
    """What `verify` found."""


class Tally:
    """Counts of every process, and the journal as this process sees it."""

    def __init__(self, pool: str, seats: int) -> None:
        self.pool, self.seats = pool, seats
        self.counts: Counter[str] = Counter()
        self.actions: Counter[str] = Counter()
        self.per_slot: Counter[int] = Counter()
        self.receipts: dict[str, int] = {}
        self.problems: list[str] = []
        self.held = self.sold = 0

    @property
    def free(self) -> int:
        """What nobody has."""
        return self.seats - self.held - self.sold

    @property
    def refused(self) -> dict[str, int]:
        """Refusals by reason, most frequent first."""
        mark = "refused:"
        return {name.removeprefix(mark): n for name, n in self.counts.most_common() if name.startswith(mark)}

    def count(self, name: str, n: int = 1) -> None:
        """One more of something."""
        self.counts[name] += n

    def add(self, counts: dict[str, int]) -> None:
        """What another process counted since it last said so."""
        self.counts.update(counts)

    def see(self, entry: JournalEntry) -> None:
        """One journal entry: of any process, in commit order."""
        self.actions[entry.action] += 1
        self.per_slot[entry.slot] += 1
        for effect in entry.pools:
            if effect.pool.id == self.pool:
                self.held, self.sold = effect.pool.held, effect.pool.consumed
            if effect.pool.held + effect.pool.consumed > effect.pool.total:
                self.problem(f"journal entry {entry.position.seq}: more is taken of {effect.pool.id} than there is")

    def keep(self, receipts: dict[str, int]) -> None:
        """Receipts: hold id to units that its buyer was told are sold."""
        for hold, units in receipts.items():
            if hold in self.receipts:
                self.problem(f"hold {hold} was sold to two buyers")
            self.receipts[hold] = units

    def problem(self, text: str) -> None:
        """Something that must not happen, happened."""
        self.problems.append(text)

    def summary(self) -> Summary:
        """The figures, so far."""
        commits = len(self.per_slot)
        entries = sum(self.per_slot.values())
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
            turned_away=self.counts["turned_away"],
            late=Late(self.counts["late_refused"], self.counts["late_honoured"], self.counts["late_refunded"]),
            entries=entries,
            commits=commits,
            entries_per_commit=round(entries / commits, 1) if commits else 0.0,
            largest_commit=max(self.per_slot.values(), default=0),
        )
