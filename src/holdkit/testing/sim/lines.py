"""Lines, accounts and trees in simulated runs: clients that wait, and a watch over the journal that knows what a line promises.

The clients use pools of their own, so that what others do stays as it was. The watch follows the journal and knows nothing of the
core's rules: who joined has a number of its own, who stands in front is served first, nobody who waits is passed by a plain hold,
and nobody is offered units twice or leaves a line without having stood there.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Final

from msgspec import Struct

from ...core.codec import minted_id
from ...core.commands import (
    AnyCommand,
    ArchivePool,
    ConfirmHold,
    CreatePool,
    ExtendHold,
    Group,
    JoinLine,
    LimitPool,
    PlaceHold,
    ReleaseHold,
    ResizePool,
    ReturnUnits,
    UnarchivePool,
)
from ...core.entries import Action, Entry
from ...core.model import Leg, Pool, Slot, StoredHold

QUEUED: Final = 0.4
"""The share of runs in which clients wait in line."""
ROOT: Final = "l"
POOLS: Final = (ROOT, "l//m", "l//m//n")


class LineClients:
    """Clients of one tree with a line at its root; drawn from a random generator of its own."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._busy = random.random() < QUEUED
        self._made = False
        self._holds: list[str] = []

    def between(self, slot: Slot) -> list[tuple[Slot, Group]]:
        """What they do before the next step."""
        random = self._random
        if not self._busy:
            return []
        if not self._made or random.random() < 0.02:
            self._made = True
            line = random.choice(("strict", "strict", "skip"))
            root = CreatePool(id=ROOT, total=random.randrange(2, 6), line=line)  # type: ignore[arg-type]
            below = [CreatePool(id=pool, total=random.randrange(2, 6)) for pool in POOLS[1:]]
            return [(slot, Group((root, *below)))]
        commands = tuple(self._command(slot) for _ in range(random.choice((1, 2, 4))))
        return [(slot, Group(commands, atomic=random.random() < 0.1))]

    def _command(self, slot: Slot) -> AnyCommand:
        random = self._random
        account = random.choice((None, "x", "y"))
        hold = random.choice(self._holds[-8:]) if self._holds else minted_id(slot, random.randbytes(10))
        kind = random.choices(range(9), (8, 6, 5, 4, 1, 1, 1, 2, 1))[0]
        if kind < 2:
            hold = minted_id(slot, random.randbytes(10))
            self._holds.append(hold)
        birth = {"id": hold, "owner": "me", "account": account}
        match kind:
            case 0:
                legs = (Leg(ROOT, random.choice((1, 1, 2, 3))),)
                ttl, offer = random.choice((5, 200, 900)), random.choice((3, 30, 300))
                return JoinLine(**birth, legs=legs, ttl_slots=ttl, offer_slots=offer)  # type: ignore[arg-type]
            case 1:
                names = random.sample(POOLS, random.choice((1, 1, 2)))
                below = tuple(Leg(name, random.choice((1, 1, 2))) for name in names)
                return PlaceHold(**birth, legs=below, ttl_slots=random.choice((5, 30, 200)))  # type: ignore[arg-type]
            case 2:
                return ReleaseHold(id=hold, owner="me", quantity=random.choice((None, None, 1)))
            case 3:
                overage = random.choice(("reject", "if_available", "up_to_available"))
                return ConfirmHold(id=hold, owner="me", quantity=random.choice((None, None, 2)), overage=overage)  # type: ignore[arg-type]
            case 4:
                return LimitPool(id=random.choice(POOLS), per_account=random.choice((None, 2, 5)))
            case 5:
                return ResizePool(id=random.choice(POOLS), total=random.randrange(1, 6))
            case 6:
                return random.choice((ArchivePool, UnarchivePool, UnarchivePool))(id=random.choice(POOLS))
            case 7:
                return ReturnUnits(id=hold, owner="me")
            case _:
                return ExtendHold(id=hold, owner="me", by_slots=random.choice((5, 100)))


class Waiting(Struct):
    """One who waits: its number, what it asks for, and until when."""

    number: int
    quantity: int
    deadline: Slot


class LineBroken(AssertionError):
    """A line did not keep what it promises."""


class LineWatch:
    """Follows the journal, entry by entry."""

    def __init__(self, reached: Counter[str]) -> None:
        self._reached = reached
        self._lines: dict[tuple[str, str], dict[str, Waiting]] = {}
        self._pools: dict[str, tuple[str, str]] = {}
        """Who waits, and where."""
        self._last: dict[tuple[str, str], int] = {}
        self._was: dict[tuple[str, str], Pool] = {}

    def see(self, entry: Entry) -> None:
        """The next entry. Raises `LineBroken`."""
        if entry.action is Action.HOLD_WAITING and entry.hold is not None:
            self._joined(entry.hold)
        elif entry.subject in self._pools:
            self._moved(entry, self._pools[entry.subject])
        elif entry.action is Action.HOLD_OFFERED:
            raise LineBroken(f"{entry.subject} is offered units, and does not wait")
        else:
            self._passed_by(entry)
        for effect in entry.effects:
            key = effect.pool.key
            self._was[key] = effect.pool
            if effect.pool.waiting != len(self._lines.get(key, ())):
                raise LineBroken(f"{key} counts {effect.pool.waiting} who wait, and {len(self._lines.get(key, ()))} do")
            if effect.pool.held + effect.pool.consumed > effect.pool.total:
                raise LineBroken(f"{key} has given more than it has: {effect.pool}")

    def _joined(self, hold: StoredHold) -> None:
        key = (hold.tenant, hold.legs[0].pool)
        assert hold.number is not None
        assert hold.deadline is not None
        if hold.number <= self._last.get(key, 0):
            raise LineBroken(f"the number {hold.number} was given before")
        self._last[key] = hold.number
        self._pools[hold.id] = key
        self._lines.setdefault(key, {})[hold.id] = Waiting(hold.number, hold.legs[0].quantity, hold.deadline)
        self._reached["line: joined"] += 1

    def _moved(self, entry: Entry, key: tuple[str, str]) -> None:
        line = self._lines[key]
        one, change = line[entry.subject], entry.change
        assert change is not None
        assert change.deadline is not None
        if entry.action is Action.HOLD_EXTENDED:
            one.deadline = change.deadline
            return
        if entry.action is Action.HOLD_OFFERED:
            self._offered(entry, key, one)
        elif entry.action not in (Action.HOLD_RELEASED, Action.HOLD_EXPIRED):
            raise LineBroken(f"{entry.subject} waits, and is {entry.action}")
        else:
            self._reached["line: left"] += 1
        del line[entry.subject], self._pools[entry.subject]

    def _offered(self, entry: Entry, key: tuple[str, str], one: Waiting) -> None:
        pool = self._was[key]
        ahead = [
            other
            for other in self._lines[key].values()
            if other.number < one.number and other.quantity <= pool.total and other.deadline > entry.slot
        ]
        if pool.line == "skip":
            ahead = [other for other in ahead if other.quantity <= pool.available]
        if ahead or pool.archived or one.quantity > pool.available:
            raise LineBroken(f"{entry.subject} ({one}) is served before {ahead}, by {pool}")
        self._reached["line: offered"] += 1

    def _passed_by(self, entry: Entry) -> None:
        """What takes units of a pool, while somebody waits there who could be served."""
        for effect in entry.effects:
            if effect.held + effect.consumed <= 0:
                continue
            line = self._lines.get(effect.pool.key, {}).values()
            if any(one.quantity <= effect.pool.total and one.deadline > entry.slot for one in line):
                raise LineBroken(f"{entry.subject} ({entry.action}) overtakes those who wait at {effect.pool.id}")

    def unserved(self, pools: dict[tuple[str, str], Pool], now: Slot) -> list[str]:
        """Those who wait though their units are free, once everything has been fed."""
        found = []
        for key, line in self._lines.items():
            pool = pools.get(key)
            if pool is None or pool.archived:
                continue
            alive = [one for one in line.values() if one.quantity <= pool.total and one.deadline > max(now, pool.slot)]
            front = alive if pool.line == "skip" else alive[:1]
            found += [f"{key} {one}" for one in front if one.quantity <= pool.available]
        return found
