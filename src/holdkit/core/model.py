"""The nouns: pools, legs, holds, records, limits.

Frozen records and nothing else. A hold is alive if and only if ``now < deadline``; `Pool.available` is total - held -
consumed. Never reads a clock, never mutates.
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
    """Where a hold is in its life; all but `HELD` are terminal."""

    HELD = "held"
    CONFIRMED = "confirmed"
    RELEASED = "released"
    EXPIRED = "expired"


class Pool(Struct, frozen=True, gc=False, omit_defaults=True):
    """A bounded amount of something scarce, and how much of it is spoken for."""

    tenant: str
    id: str
    total: int
    held: int = 0
    consumed: int = 0
    fence: int = 0
    """Grows with every grant, also across removal and re-creation."""
    slot: Slot = 0
    """The last slot decided here: time never moves backwards along a pool."""
    version: int = 1
    on_demand: bool = False
    """Born by `create_with_total`: swept away when empty."""
    label: str | None = None
    """What a face calls it: a claim's key, an item's id. A labelled pool remembers who had it last."""
    closes: Slot | None = None
    """The end of its window: from then on it is swept away as soon as nothing is held, whatever was consumed."""
    holder: str | None = None
    """Of a labelled pool: the id of the last hold granted on it."""
    entity: str | None = None
    """Of a labelled pool: what its last confirm linked, until units are returned or granted anew."""
    archived: bool = False
    """Nothing more is granted on it; what is held or consumed goes on as ever."""
    loose: int = 0
    """Of what is consumed: the units whose holds have been dropped. `return_units(pool=...)` brings these back, no others."""
    floor: int = 0
    """The fence it was created with. A hold with no higher one was granted by an earlier pool of this id."""
    replayed: bool = False
    """This answer was recorded earlier under the same operation id; never so in what is stored."""

    @property
    def available(self) -> int:
        """What another hold could take now."""
        return max(0, self.total - self.held - self.consumed)

    @property
    def over(self) -> bool:
        """The application lowered the capacity under what is in use."""
        return self.held + self.consumed > self.total

    @property
    def key(self) -> Key:
        """Tenant and id."""
        return (self.tenant, self.id)

    def same_life(self, other: Pool) -> bool:
        """Whether both are the same pool at different times; else one was created under the id of another that was removed."""
        return (self.floor, self.label) == (other.floor, other.label)

    def idle_from(self, retention: Slot) -> Slot | None:
        """From which slot on it may be swept away, as it is; None if not at all.

        A window goes when it is over, an empty on-demand pool at once; a labelled one can be looked up for the retention.
        An archived one stays until it is removed: swept away, it could be born anew.
        """
        if not self.on_demand or self.held or self.archived:
            return None
        if self.closes is not None:
            return self.closes
        if self.consumed:
            return None
        return 0 if self.label is None else self.slot + retention


class Leg(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a caller asks of one pool."""

    pool: str
    quantity: int = 1
    create_with_total: int | None = None
    """If the pool is missing, create it with this total in the same step."""
    label: str | None = None
    """What a face calls the pool that it brings along."""
    opens: Slot | None = None
    """The first slot of the window in which this leg may be granted, and"""
    closes: Slot | None = None
    """the first one after it: decided at any other, the command is refused."""
    total: int | None = None
    """What the application answered: the pool's total becomes this in the same step, whatever comes of the command. Faces
    only."""
    in_use: int | None = None
    """The application's own count of what is in use, in place of the pool's counters: `total` - `in_use` is available."""


class HeldLeg(Struct, frozen=True, gc=False, omit_defaults=True):
    """What a hold has of one pool: `quantity` was granted, `held` is outstanding, the rest is history."""

    pool: str
    quantity: int
    held: int = 0
    confirmed: int = 0
    returned: int = 0

    @property
    def consumed(self) -> int:
        """Confirmed and not returned: what the pool counts, as long as it is there."""
        return self.confirmed - self.returned


class StoredHold(Struct, frozen=True, gc=False, omit_defaults=True):
    """A hold as engines keep it: the owner token only as a hash."""

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
    """The end of its last window; None if any of its pools has none, and counts what is consumed for ever."""

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
        """Whether the deadline has come: the one rule of time."""
        return self.deadline is not None and self.deadline <= now

    def same_life(self, other: StoredHold) -> bool:
        """Whether both are the same hold at different times; else one took the id of another that had retired."""
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
    """This answer was recorded earlier under the same operation id; never so in what is stored."""

    @property
    def key(self) -> RecordKey:
        """Tenant, kind and id."""
        return (self.tenant, self.kind, self.id)


RecordKey: TypeAlias = tuple[str, str, str]


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every bound in one place. Spans are slots (microseconds on a wall clock); None means unbounded. `version` (how often
    they were changed) and `past` (shorter retentions, oldest first) are kept with the data, never asked for."""

    max_pools: int | None = None
    max_holds: int | None = None
    """Live holds; terminal ones are kept for `retention` as far as there is room."""
    max_operations: int | None = None
    retry_window: Slot = DAY
    """How long an operation id is remembered; at age == window it is gone."""
    retention: Slot = 30 * DAY
    """How long an ended hold can be read, from its last change; its journal entries stay."""
    retention_consumed: Slot = 400 * DAY
    """How long one is kept whose units a pool still counts as consumed: until then they can be returned by the hold."""
    min_ttl: Slot = 1
    max_ttl: Slot = 30 * DAY
    max_lifetime: Slot = 90 * DAY
    max_legs: int = 1_000
    max_due: int = 1_000
    """Due legs one transaction returns; a longer backlog goes first, in transactions of its own."""
    max_batch: int = 1_000  # commands of one `apply`
    max_queue: int = 10_000  # commands waiting for the group commit before callers are turned away
    lock_timeout: Slot = 10 * SECOND  # how long a write waits for other processes before it is turned away
    call_timeout: Slot = 30 * SECOND  # how long a whole call may take, unless its context says otherwise
    version: int = 0
    past: tuple[PastRetention, ...] = ()


MEANING: Final = ("max_pools", "max_holds", "max_operations", "retry_window", "retention",
                  "retention_consumed", "min_ttl", "max_ttl", "max_lifetime", "max_legs")  # fmt: skip
"""The limits that change meaning: stored with the data, not taken from each `connect`."""
