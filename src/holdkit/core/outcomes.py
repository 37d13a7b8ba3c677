"""Outcomes: done, refused or invalid, as plain values; and the operation records that keep them.

`Reason` lists every refusal in the order of the ladders. Nothing here raises: the kernel's methods turn refusals into
exceptions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias

from msgspec import Struct, field

from .keyed import leg_name
from .model import Key, Pool, Record, Slot, StoredHold


class Reason(StrEnum):
    """Stable words, in ladder order: if two apply, the upper one is given."""

    __repr__ = str.__repr__

    OPERATION_CONFLICT = "operation_conflict"
    OPERATION_TABLE_FULL = "operation_table_full"
    POOL_EXISTS = "pool_exists"
    SLOT_OVERFLOW = "slot_overflow"
    DEADLINE_PASSED = "deadline_passed"
    LIFETIME_EXCEEDED = "lifetime_exceeded"
    POOL_NOT_FOUND = "pool_not_found"
    POOL_ARCHIVED = "pool_archived"
    WINDOW_CLOSED = "window_closed"
    ACCOUNT_REQUIRED = "account_required"
    POOL_IN_USE = "pool_in_use"
    BELOW_IN_USE = "below_in_use"
    HOLD_EXISTS = "hold_exists"
    POOL_TABLE_FULL = "pool_table_full"
    LINE_FULL = "line_full"
    HOLD_TABLE_FULL = "hold_table_full"
    HOLD_NOT_FOUND = "hold_not_found"
    HOLD_RETIRED = "hold_retired"
    NOT_OWNER = "not_owner"
    HOLD_WAITING = "hold_waiting"
    ALREADY_CONFIRMED = "already_confirmed"
    ALREADY_RELEASED = "already_released"
    HOLD_EXPIRED = "hold_expired"
    NOT_DUE = "not_due"
    NOT_CONFIRMED = "not_confirmed"
    QUANTITY_EXCEEDS_HOLD = "quantity_exceeds_hold"
    QUANTITY_EXCEEDS_CONSUMED = "quantity_exceeds_consumed"
    ACCOUNT_LIMIT = "account_limit"
    INSUFFICIENT_CAPACITY = "insufficient_capacity"
    LINE_AHEAD = "line_ahead"
    VERSION_CONFLICT = "version_conflict"
    ABORTED = "aborted"


TRANSIENT: Final = frozenset(
    {
        Reason.OPERATION_TABLE_FULL,
        Reason.POOL_TABLE_FULL,
        Reason.LINE_FULL,
        Reason.HOLD_TABLE_FULL,
        Reason.HOLD_WAITING,
        Reason.INSUFFICIENT_CAPACITY,
        Reason.LINE_AHEAD,
        Reason.ABORTED,
    }
)
"""Reasons under which the same request may succeed later; all others are final."""


FINDING: Final = (Reason.HOLD_NOT_FOUND, Reason.HOLD_RETIRED, Reason.NOT_OWNER)
"""Why a hold is not found for its caller."""
ENDING: Final = (*FINDING, Reason.ALREADY_CONFIRMED, Reason.ALREADY_RELEASED, Reason.HOLD_EXPIRED)
"""Why a hold cannot be ended."""
OVERAGE: Final = (Reason.POOL_ARCHIVED, Reason.WINDOW_CLOSED, Reason.ACCOUNT_REQUIRED, Reason.ACCOUNT_LIMIT,
                  Reason.INSUFFICIENT_CAPACITY, Reason.LINE_AHEAD)  # fmt: skip
"""Why units cannot be taken from pools that exist."""
TAKING: Final = (Reason.POOL_NOT_FOUND, *OVERAGE, Reason.HOLD_EXISTS, Reason.POOL_TABLE_FULL, Reason.HOLD_TABLE_FULL)
"""Why a hold cannot be placed."""


class Shortfall(Struct, frozen=True, gc=False, omit_defaults=True):
    """One leg that fell short."""

    pool: str
    requested: int
    available: int
    total: int
    label: str | None = None
    """The face's own name for the pool."""
    holder: str | None = None
    """Of a labelled pool: the id of the last hold granted on it."""
    confirmed: bool = field(default=False, name="spent")
    """Of a labelled pool: that hold was confirmed, so the units do not become available by themselves."""
    used: int = 0
    """Of an account's limit: what the account uses already. `total` is the limit."""

    @property
    def name(self) -> str:
        """What the pool is called: its id, a key's or an item's own name, `inn/double/2027-07-03` of a calendar."""
        return leg_name(self.pool, self.label)

    def __repr__(self) -> str:
        name = self.name if len(self.name) <= 48 else f"{self.name[:23]}…{self.name[-24:]}"
        return f"<Shortfall {name!r} requested={self.requested} available={self.available} total={self.total}>"


class Refusal(Struct, frozen=True, gc=False, omit_defaults=True, tag="refused"):
    """The command was refused, and nothing happened."""

    reason: Reason
    subject: str = ""
    shortfalls: tuple[Shortfall, ...] = ()
    found: int | None = None
    """The number that caused the refusal: units in use, current version, deadline, slot, units held."""
    replayed: bool = False
    entity: str | None = None
    """The entity of a hold that was confirmed before. Only the hold's owner gets it."""


Survives: TypeAlias = Literal["process", "local", "synchronous", "asynchronous_standby", "unsafe"]
"""What a done answer survives. `process`: nothing; it is lost when the process ends. `local`: a crash and a power cut of the one
machine that stores it. `synchronous`: also a failover to a standby that commits wait for. `asynchronous_standby`: as `local`,
but there is a standby that commits do not wait for, so a failover may lose the last moments. `unsafe`: not even a crash."""


class Done(Struct, frozen=True, gc=False, omit_defaults=True, tag="done"):
    """The command was done."""

    slot: Slot
    hold: StoredHold | None = None
    pool: Pool | None = None
    record: Record | None = None
    token: str | None = None
    """The token of a hold just placed."""
    uncovered: dict[str, int] | None = None
    """Overage that no pool could cover, by pool."""
    swept: tuple[Key, ...] = ()
    """Holds that a sweep expired, in order of (deadline, id): those of its tenant, or of all for the default tenant."""
    more: bool = False
    """A sweep left something for the next one."""
    replayed: bool = False
    refusal: Refusal | None = None
    """Of a hold that left the line by `LeaveLine`: the answer of the call that waited."""

    @property
    def expired(self) -> int:
        """How many holds a sweep expired."""
        return len(self.swept)


class Position(Struct, frozen=True, order=True, gc=False):
    """A position in the journal: a lane, and a number in it. Embedded engines have only lane 0."""

    lane: int
    seq: int

    def __str__(self) -> str:
        return f"{self.lane}.{self.seq}"


class Receipt(Done, frozen=True, gc=False, omit_defaults=True, tag="done"):
    """A done outcome as its caller gets it: with its journal position and its durability. Never stored."""

    position: Position | None = None
    """None: nothing was written, or the number is assigned after the caller's own transaction has committed."""
    durability: Survives | None = None
    """None in the caller's own transaction: the answer is as durable as that."""
    position_text: str | None = None
    """The position as a server showed it, if one was asked."""


class Operation(Struct, frozen=True, gc=False):
    """The recorded answer of an operation id: the only place that keeps a token, for the retry."""

    tenant: str
    id: str
    fingerprint: str
    until: Slot
    """The end of its retry window: the window in force when it was written, even if that changes later."""
    outcome: Done | Refusal
    seq: int = 0
    """The journal number of its entry, in an engine that numbers entries while it decides; 0: none, or not known here."""

    @property
    def key(self) -> Key:
        """Tenant and id."""
        return (self.tenant, self.id)


class Invalid(Struct, frozen=True, gc=False):
    """The command does not fit what it names; raised as `InvalidRequest`, never recorded."""

    field: str
    code: str
    message: str


Outcome: TypeAlias = Done | Refusal | Invalid
Reply: TypeAlias = Receipt | Refusal | Invalid
"""An outcome as its caller gets it."""
