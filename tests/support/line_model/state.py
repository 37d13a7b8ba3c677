"""The state of the model: pools in trees, holds and waiters, tallies, and what the world outside remembers.

The model is a second, independent account of lines, accounts, trees, lazy expiry and returns by pool: it shares no code and no
representation with the core. It is written to be read beside the rules, not to be fast. What is stored twice on purpose (a pool's
`held` and the holds' `outstanding`, a tally and what it counts) is compared by `invariants` after every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

RETENTION = 60
"""How long every ended hold is kept, with or without consumed units."""

NOBODY = ""
"""The account of units that were confirmed for no account."""


@dataclass(frozen=True)
class Reading:
    """How the rules are read. With every field off: as they stand. Each field is a plausible reading that was rejected."""

    lines_below_roots: bool = False
    """Lines stand also at pools that have a parent."""
    tallied_when_offered: bool = False
    """The account's units are tallied when they are offered, not when it joins; and the tally has a lock of its own."""
    large_waiters_block: bool = False
    """A waiter may ask for more than the total, and blocks the line then."""
    overage_passes_the_line: bool = False
    """A confirm with overage does not look at the line."""
    levels_are_legs: bool = False
    """Ancestors are ordinary legs: one that a partial confirm does not name counts as 0."""
    any_consumed_unit_returns: bool = False
    """A return by pool is bounded by what is consumed, not by what is loose."""
    offers_in_transactions: bool = False
    """A caller's own transaction offers what it frees."""
    limit_of_first_call: bool = False
    """An account keeps the limit that was in force when its tally began."""
    several_legs_pass: bool = False
    """A hold of several legs is refused only where its units do not suffice."""
    only_frees_offer: bool = False
    """Offers are made by commands that free units, not by everybody who touches the pool."""


@dataclass
class Pool:
    """A pool. `outstanding` and `consumed` count its descendants' units too."""

    total: int
    per_account: int | None = None
    line: Literal["strict", "skip"] = "strict"
    held: int = 0
    consumed: int = 0
    archived: bool = False
    waiting: int = 0
    last_number: int = 0
    slot: int = 0
    tallies: dict[str, int] = field(default_factory=dict)
    """By account: units waited for, held, or confirmed and not returned."""
    loose: dict[str, int] = field(default_factory=dict)
    """By account or `NOBODY`: consumed units of this pool itself whose holds have been dropped."""
    first_limits: dict[str, int | None] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """What is neither held nor consumed."""
        return max(0, self.total - self.held - self.consumed)


@dataclass
class Leg:
    """What a hold has of a pool that it names."""

    quantity: int
    held: int = 0
    confirmed: int = 0
    returned: int = 0

    @property
    def consumed(self) -> int:
        """Confirmed and not returned."""
        return self.confirmed - self.returned


@dataclass
class Hold:
    """A hold, or a waiter."""

    state: Literal["waiting", "held", "confirmed", "released", "expired"]
    legs: dict[str, Leg]
    deadline: int | None
    account: str | None = None
    outstanding: dict[str, int] = field(default_factory=dict)
    """Units that each level still counts as held: after the deadline each comes back when its pool is touched."""
    number: int | None = None
    """Its number in the line, as long as it has a place there."""
    offer_ttl: int = 0
    changed_at: int | None = None
    """Its end, or a later return."""

    @property
    def pool(self) -> str:
        """The only pool of a waiter; of another hold the first leg by name."""
        return min(self.legs)

    @property
    def open(self) -> bool:
        """Whether something of it is still to be returned to a pool."""
        return self.number is not None or any(self.outstanding.values())

    @property
    def consumes(self) -> bool:
        """Whether any unit is confirmed and not returned."""
        return any(leg.consumed for leg in self.legs.values())

    def due(self, now: int) -> bool:
        """Whether its deadline has come, and something of it is still to be returned."""
        return self.open and self.deadline is not None and self.deadline <= now


POOLS: Mapping[str, Pool] = {
    "F": Pool(3, per_account=2),
    "G": Pool(2),
    "S": Pool(4, line="skip"),
    "V": Pool(3, per_account=3),
    "V//a": Pool(2),
    "V//b": Pool(2, per_account=1),
    "V//b//x": Pool(2),
}
"""The pools with which every history begins: small ones, so that few holds meet in them."""
ROOTS = tuple(pool for pool in POOLS if "//" not in pool)


@cache
def path(pool: str) -> tuple[str, ...]:
    """A pool and its ancestors, up to the root."""
    names = pool.split("//")
    return tuple("//".join(names[:depth]) for depth in range(len(names), 0, -1))


@cache
def below(level: str) -> frozenset[str]:
    """A pool and its descendants."""
    return frozenset(pool for pool in POOLS if level in path(pool))


def levels(units: Mapping[str, int]) -> dict[str, int]:
    """What legs ask of each level of their trees, summed."""
    asked: dict[str, int] = {}
    for pool, count in units.items():
        for level in path(pool):
            asked[level] = asked.get(level, 0) + count
    return asked


class State:
    """Everything that is stored, and what the world outside knows: who bought which tickets."""

    def __init__(self, reading: Reading, max_offers: int) -> None:
        self.reading = reading
        self.max_offers = max_offers
        """Offers that one transaction makes at most."""
        self.now = 0
        self.pools = {
            name: Pool(pool.total, per_account=pool.per_account, line=pool.line) for name, pool in POOLS.items()
        }
        self.holds: dict[str, Hold] = {}
        self.tickets: dict[tuple[str, str], int] = {}
        """By hold and pool: what was confirmed and has not been brought back. It outlives the hold."""
        self.accounts: dict[str, str] = {}
        """The account of every hold that ever was, or `NOBODY`."""

    def find(self, name: str) -> Hold | None:
        """A hold that callers can see: an ended one without consumed units only within the retention."""
        hold = self.holds.get(name)
        if hold is None or hold.consumes:
            return hold
        ended = hold.deadline if hold.changed_at is None and hold.due(self.now) else hold.changed_at
        return hold if ended is None or ended + RETENTION > self.now else None

    def line(self, pool: str) -> list[str]:
        """Who waits at a pool, in order of number."""
        waiting = [(hold.number, name) for name, hold in self.holds.items() if hold.pool == pool and hold.number]
        return [name for _, name in sorted(waiting)]

    def servable(self, name: str) -> bool:
        """Whether a waiter asks for no more than the total: another one blocks nobody."""
        hold = self.holds[name]
        totals = [self.pools[level].total for level in path(hold.pool)]
        return self.reading.large_waiters_block or hold.legs[hold.pool].quantity <= min(totals)

    def fits(self, name: str) -> bool:
        """Whether a waiter's units are free, on every level."""
        hold = self.holds[name]
        return all(self.pools[level].free >= hold.legs[hold.pool].quantity for level in path(hold.pool))
