"""The model: pools, legs, holds, records, limits.

Frozen structs only. A hold is alive if and only if ``now < deadline``; `Pool.available` is total - held -
consumed. Nothing here reads a clock or mutates anything.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from .retention import PastRetention

Slot: TypeAlias = int
"""A point in time: microseconds UTC on a wall clock, any integer in a simulation."""

Key: TypeAlias = tuple[str, str]
"""(tenant, id): nothing is ever looked up without its tenant."""

MAX_SLOT: Final = 2**63 - 1
MAX_QUANTITY: Final = 2**53 - 1
SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND


class State(StrEnum):
    """The state of a hold; all but `HELD` are terminal."""

    HELD = "held"
    CONFIRMED = "confirmed"
    RELEASED = "released"
    EXPIRED = "expired"


class Pool(Struct, frozen=True, gc=False, omit_defaults=True):
    """A bounded amount of something scarce, and how much of it is in use."""

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
    label: str | None = None
    """The face's own name for it: a claim's key, an item's id. A labelled pool remembers its last hold."""
    closes: Slot | None = None
    """The end of its window: after that it is swept away as soon as nothing is held, whatever was consumed."""
    holder: str | None = None
    """Of a labelled pool: the id of the last hold granted on it."""
    entity: str | None = None
    """Of a labelled pool: the entity of its last confirm, until units are returned or granted again."""
    archived: bool = False
    """Nothing more is granted on it; what is held or consumed is not affected."""
    loose: int = 0
    """The consumed units whose holds have been dropped. `return_units(pool=...)` returns these, no others."""
    floor: int = 0
    """The fence at its creation. A hold without a higher fence was granted by an earlier pool with this id."""
    replayed: bool = False
    """This answer was recorded earlier under the same operation id; never set in stored data."""

    @property
    def available(self) -> int:
        """The units that another hold could take now."""
        return max(0, self.total - self.held - self.consumed)

    @property
    def over(self) -> bool:
        """The application lowered the capacity below what is in use."""
        return self.held + self.consumed > self.total

    @property
    def key(self) -> Key:
        """Tenant and id."""
        return (self.tenant, self.id)

    def same_life(self, other: Pool) -> bool:
        """Whether both are the same pool at different times; otherwise one was created under the id of a removed one."""
        return (self.floor, self.label) == (other.floor, other.label)

    def idle_from(self, retention: Slot) -> Slot | None:
        """The slot from which it may be swept away in its current state; None if it may not.

        A window's pool when the window is over, an empty on-demand pool at once; a labelled one stays readable for the
        retention. An archived one stays until it is removed: if it were swept away, a leg could create it again.
        """
        if not self.on_demand or self.held or self.archived:
            return None
        if self.closes is not None:
            return self.closes
        if self.consumed:
            return None
        return 0 if self.label is None else self.slot + retention


class Leg(Struct, frozen=True, gc=False, omit_defaults=True):
    """A request for units of one pool."""

    pool: str
    quantity: int = 1
    create_with_total: int | None = None
    """If the pool is missing, create it with this total in the same step."""
    label: str | None = None
    """The face's own name for the pool that the leg creates."""
    opens: Slot | None = None
    """The first slot of the window in which this leg may be granted."""
    closes: Slot | None = None
    """The first slot after that window. Decided outside the window, the command is refused."""
    total: int | None = None
    """The capacity that the application answered: it becomes the pool's total in the same step, even if the command is
    refused. Faces only."""
    in_use: int | None = None
    """The application's own count of units in use, instead of the pool's counters: `total` - `in_use` is available."""


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
    """A hold as engines store it: the owner token only as a hash."""

    tenant: str
    id: str
    legs: tuple[HeldLeg, ...]
    owner_hash: str
    held_at: Slot
    fence: int
    deadline: Slot | None = None
    state: State = State.HELD
    entity: str | None = None
    ended_at: Slot | None = None
    reason: str | None = None
    actor: str | None = None
    correlation_id: str | None = None
    metadata: str | None = None
    """Canonical JSON text."""
    last_op: str | None = None
    """Fingerprint and operation id of the last confirm or release, so that its retry never needs the operation table."""
    version: int = 1
    returned_at: Slot | None = None
    """When units were last returned."""
    closes: Slot | None = None
    """The end of its last window; None if any of its pools has no window, and so counts what is consumed for ever."""

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
        return any(leg.held for leg in self.legs)

    def due(self, now: Slot) -> bool:
        """Whether the deadline has come: the only rule about time."""
        return self.deadline is not None and self.deadline <= now

    @property
    def leg_deadline(self) -> Slot:
        """The deadline under which its legs are stored: a hold without a deadline sorts last."""
        return MAX_SLOT if self.deadline is None else self.deadline

    def same_life(self, other: StoredHold) -> bool:
        """Whether both are the same hold at different times; otherwise one was placed under the id of a retired one."""
        return (self.owner_hash, self.held_at, self.fence, self.actor, self.correlation_id, self.metadata) == (
            other.owner_hash, other.held_at, other.fence, other.actor, other.correlation_id, other.metadata)  # fmt: skip


class Record(Struct, frozen=True, gc=False, omit_defaults=True):
    """A small durable document beside the holds: sagas, cursors, keys."""

    tenant: str
    kind: str
    id: str
    body: str
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


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every bound. Intervals are in slots (microseconds on a wall clock); None means unbounded. `version` (the number of
    changes) and `past` (shorter retentions, oldest first) are stored with the data; callers never set them."""

    max_pools: int | None = None
    max_holds: int | None = None
    """Live holds; terminal ones are kept for `retention` as far as there is room."""
    max_operations: int | None = None
    retry_window: Slot = DAY
    """How long an operation id is remembered; at age == window it is gone."""
    retention: Slot = 30 * DAY
    """How long an ended hold can be read, from its last change; its journal entries stay."""
    retention_consumed: Slot = 400 * DAY
    """How long a hold is kept whose units a pool still counts as consumed: until then the hold can return them."""
    min_ttl: Slot = 1
    max_ttl: Slot = 30 * DAY
    max_lifetime: Slot = 90 * DAY
    max_legs: int = 1_000
    max_due: int = 1_000
    """Due legs that one transaction returns; a longer backlog goes first, in separate transactions."""
    max_batch: int = 1_000  # commands of one `apply`
    max_touched_legs: int = 10_000
    """Legs that one transaction touches: those that its commands name, and those of the holds that they name."""
    max_queue: int = 10_000  # queued commands of a tenant that is alone; beyond that, its callers get Overloaded
    lock_timeout: Slot = 10 * SECOND  # how long a write waits for other processes before it gives up with Overloaded
    call_timeout: Slot = 30 * SECOND  # how long a whole call may take, unless its context says otherwise
    version: int = 0
    past: tuple[PastRetention, ...] = ()


MEANING: Final = ("max_pools", "max_holds", "max_operations", "retry_window", "retention",
                  "retention_consumed", "min_ttl", "max_ttl", "max_lifetime", "max_legs")  # fmt: skip
"""The limits that change meaning: stored with the data, not taken from each `connect`."""
