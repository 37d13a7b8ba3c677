"""The model: pools, legs, holds, records.

Frozen structs only. A hold is alive if and only if ``now < deadline``; `Pool.available` is total - held -
consumed. Nothing here reads a clock or mutates anything.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from .fields import Changing, Fact, Filed, Fixed, Granted, Personal, any_differs, fields_that
from .outstanding import Level, OpenLeg, tallied

Slot: TypeAlias = int
"""A point in time: microseconds UTC on a wall clock, any integer in a simulation."""
Key: TypeAlias = tuple[str, str]
"""(tenant, id): nothing is ever looked up without its tenant."""
Line: TypeAlias = Literal["strict", "skip"]
"""The holds that a pool offers units to: the first in line only, or those in front that fit."""

MAX_SLOT: Final = 2**63 - 1
MAX_QUANTITY: Final = 2**53 - 1
SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND


class State(StrEnum):
    """The state of a hold; all but `WAITING` and `HELD` are terminal."""

    __repr__ = str.__repr__
    WAITING = "waiting"
    """In line: it has no units yet."""
    HELD = "held"
    CONFIRMED = "confirmed"
    RELEASED = "released"
    EXPIRED = "expired"


WAITING: Final = State.WAITING  # members of an enum are slow to look up
HELD: Final = State.HELD
LIVE: Final = (HELD, WAITING)
"""The states of a hold that has not ended."""


class Pool(Struct, frozen=True, gc=False, omit_defaults=True):
    """A pool as engines store it."""

    tenant: str
    id: str
    total: int
    held: int = 0
    consumed: int = 0
    fence: int = 0
    """Grows with every grant, even across removal and re-creation."""
    slot: Slot = 0
    """The last slot of a decision on this pool: time never moves backwards along a pool."""
    version: int = 1
    on_demand: bool = False
    """Created by `create_with_total`: swept away when empty."""
    label: Personal[str | None] = None
    """The face's own name for it: a claim's key, an item's id. A labelled pool remembers its last hold."""
    closes: Slot | None = None
    """The end of its window: after that it is swept away as soon as nothing is held, whatever was consumed."""
    holder: str | None = None
    """Of a labelled pool: the id of the last hold granted on it."""
    entity: Personal[str | None] = None
    """Of a labelled pool: the entity of its last confirm, until units are returned or granted again."""
    archived: bool = False
    """Nothing more is granted on it; what is held or consumed is not affected."""
    loose: int = 0
    """The consumed units whose holds have been dropped and had no account; those of an account are in its tally."""
    floor: int = 0
    """The fence at its creation. A hold without a higher fence was granted by an earlier pool with this id."""
    waiting: int = 0
    """The holds that wait in its line."""
    last_number: int = 0
    """The number of the last hold that joined its line; numbers are never given twice."""
    children: int = 0
    """The pools directly below it: as long as there are any, it is not removed."""
    per_account: int | None = None
    """The most units that one account may wait for, hold and have confirmed together; None: no limit."""
    line: Line = "strict"
    least: int | None = None
    """The most units that its line and the pools above it leave to a plain hold; set by reads, never in stored data."""
    replayed: bool = False
    """This answer was recorded earlier under the same operation id; never set in stored data."""

    @property
    def available(self) -> int:
        """The units that another hold could take now."""
        return max(0, self.total - self.held - self.consumed)

    @property
    def bookable(self) -> int:
        """The units that a plain hold could take now: none while a hold waits in line, and no more than `least`, if it is set."""
        if self.archived:
            return 0
        if self.least is not None:
            return min(self.least, self.available)
        return 0 if self.waiting else self.available

    @property
    def over(self) -> bool:
        """The application lowered the capacity below what is in use."""
        return self.held + self.consumed > self.total

    @property
    def key(self) -> Key:
        """Tenant and id."""
        return (self.tenant, self.id)

    def same_life(self, other: Pool) -> bool:
        """Return whether both are the same pool at different times; otherwise one was created under the id of a removed one."""
        return (self.floor, self.label) == (other.floor, other.label)

    def idle_from(self, retention: Slot) -> Slot | None:
        """Return the slot from which it may be swept away in its current state; None if it may not.

        A window's pool when the window is over, an empty on-demand pool at once; a labelled one stays readable for the
        retention. An archived one stays until it is removed: if it were swept away, a leg could create it again.
        """
        if not self.on_demand or self.held or self.archived or self.children:
            return None
        if self.closes is not None:
            return self.closes
        if self.consumed:
            return None
        return 0 if self.label is None else self.slot + retention


class Leg(Struct, frozen=True, gc=False, omit_defaults=True, repr_omit_defaults=True):
    """A request for units of one pool."""

    pool: str
    quantity: int = 1
    create_with_total: int | None = None
    """If the pool is missing, create it with this total in the same step."""


class HeldLeg(Struct, frozen=True, gc=False, omit_defaults=True):
    """A hold's units of one pool: `quantity` was granted, `held` is outstanding, the rest is confirmed, returned or released."""

    pool: str
    quantity: int
    held: int = 0
    confirmed: int = 0
    returned: int = 0

    @property
    def consumed(self) -> int:
        """Confirmed and not returned: what the pool counts as long as it exists."""
        return self.confirmed - self.returned


class StoredHold(Struct, frozen=True, gc=False, omit_defaults=True):
    """A hold as engines store it: the token only as a hash."""

    tenant: Fixed[str]
    id: Fixed[str]
    legs: Changing[Filed[tuple[HeldLeg, ...]]]
    owner_hash: Fixed[str]
    held_at: Granted[Slot | None]
    """When its units were granted; None until then."""
    fence: Granted[int]
    """0 until it has units."""
    deadline: Changing[Filed[Slot | None]] = None
    """While it waits, the end of waiting."""
    state: Changing[Filed[State]] = State.HELD
    entity: Changing[Personal[str | None]] = None
    ended_at: Changing[Slot | None] = None
    reason: Changing[Personal[str | None]] = None
    actor: Fixed[Personal[str | None]] = None
    correlation_id: Fixed[str | None] = None
    metadata: Fixed[Personal[str | None]] = None
    """Canonical JSON text."""
    last_op: Changing[Personal[str | None]] = None
    """Fingerprint and operation id of the last confirm or release, so that its retry never needs the operation table."""
    version: Changing[int] = 1
    returned_at: Changing[Slot | None] = None
    """When units were last returned."""
    closes: Fixed[Slot | None] = None
    """The end of its last window; None if any of its pools has no window, and so counts what is consumed for ever."""
    account: Changing[Personal[Filed[str | None]]] = None
    """In whose tallies its units are counted."""
    above: Changing[Filed[tuple[Level, ...]]] = ()
    """The pools above those of its legs, by id, with what is outstanding there. A pool that is named too has both."""
    joined_at: Fixed[Slot | None] = None
    """When it joined a line; None if it never waited."""
    number: Fixed[Filed[int | None]] = None
    """Its number in that line."""
    offer_ttl: Fixed[Slot | None] = None
    """How long the offer stands that it waits for."""

    @property
    def key(self) -> Key:
        """Tenant and id."""
        return (self.tenant, self.id)

    @property
    def consumes(self) -> bool:
        """Whether any of its units are consumed: confirmed and not returned."""
        return any(leg.confirmed > leg.returned for leg in self.legs)

    @property
    def changed_at(self) -> Slot | None:
        """The last change of a hold that has ended: its end, or a later return."""
        if self.returned_at is None or self.ended_at is None:
            return self.ended_at
        return max(self.ended_at, self.returned_at)

    @property
    def open(self) -> bool:
        """Whether any unit is still outstanding (an expired hold may have legs to return)."""
        for leg in self.legs:
            if leg.held:
                return True
        return self.state is WAITING or any(level.held for level in self.above)

    @property
    def live(self) -> bool:
        """Whether it has not ended: it waits, or has units."""
        return self.state in LIVE

    @property
    def began(self) -> Slot:
        """The slot from which its lifetime counts: its grant, or while it waits, when it joined the line."""
        return (self.joined_at or 0) if self.held_at is None else self.held_at

    @property
    def pools(self) -> list[str]:
        """Every pool that its units move: those of its legs, and those above them."""
        named = [leg.pool for leg in self.legs]
        return named + [level.pool for level in self.above if level.pool not in named] if self.above else named

    def open_legs(self) -> list[tuple[str, OpenLeg]]:
        """Return its outstanding units, by pool."""
        if self.account is None and not self.above and self.state is not WAITING:  # by far the most
            return [(leg.pool, OpenLeg(leg.held)) for leg in self.legs if leg.held]
        if self.state is WAITING:
            leg = self.legs[0]
            return [(leg.pool, OpenLeg(0, leg.quantity, self.number or 0, self.account))]
        units = {leg.pool: leg.held for leg in self.legs}
        for level in self.above:
            units[level.pool] = units.get(level.pool, 0) + level.held
        return [(pool, OpenLeg(held, account=tallied(pool, self.account))) for pool, held in units.items() if held]

    def due(self, now: Slot) -> bool:
        """Return whether the deadline has come: the only rule about time."""
        return self.deadline is not None and self.deadline <= now

    @property
    def leg_deadline(self) -> Slot:
        """The deadline under which its legs are stored: a hold without a deadline sorts last."""
        return MAX_SLOT if self.deadline is None else self.deadline

    def same_life(self, other: StoredHold) -> bool:
        """Return whether both are the same hold at different times; otherwise one was placed under the id of a retired one."""
        return not (_another_life(self, other) or (self.number is None and _granted_anew(self, other)))


_another_life: Final = any_differs(fields_that(Fact.FIXED, StoredHold))
_granted_anew: Final = any_differs(fields_that(Fact.GRANTED, StoredHold))
filed_anew: Final = any_differs(fields_that(Fact.FILED, StoredHold))
"""Whether a hold's outstanding legs are stored in another way than those of the same hold before."""


class Record(Struct, frozen=True, gc=False, omit_defaults=True):
    """A small durable document beside the holds: sagas, cursors, keys."""

    tenant: str
    kind: str
    id: str
    body: Personal[str]
    """JSON text."""
    version: int
    slot: Slot
    replayed: bool = False
    """This answer was recorded earlier under the same operation id; never set in stored data."""

    @property
    def key(self) -> RecordKey:
        """Tenant, kind and id."""
        return (self.tenant, self.kind, self.id)


RecordKey: TypeAlias = tuple[str, str, str]
