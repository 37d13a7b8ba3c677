"""The journal's entries: every change as a complete effect, in the past tense.

An entry contains everything that `fold` needs; replay never decides again. `before` values can be derived from it. An entry
does not contain its position: the journal that stores it knows that.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Self

from msgspec import UNSET, Struct, UnsetType

from .commands import COMMANDS
from .fields import Personal
from .model import HeldLeg, Pool, Record, Slot, State, StoredHold
from .outcomes import Reason
from .outstanding import Level, Tally


class Action(StrEnum):
    """What happened."""

    __repr__ = str.__repr__
    _value_: str
    begins: bool
    """A hold's life begins with it: the entry has the whole hold."""
    grants: bool
    """A hold gets its units: the fences of their pools grow."""
    answers: bool
    """It says of a hold what later entries need not repeat, so a retry of another operation may be answered from it. (A
    `Change` has all other fields that can change.)"""
    beside: bool
    """A command that places a hold may do it to a pool: who asked, and why, is as personal as in the hold."""
    of_hold: bool
    """Its subject is a hold: the entry is erased with it."""

    def __new__(cls, value: str, *traits: str) -> Self:
        """Make the member with this text and these traits."""
        action = str.__new__(cls, value)
        action._value_ = value
        action.begins, action.grants = "begins" in traits, "grants" in traits
        action.answers, action.beside = "answers" in traits, "beside" in traits
        action.of_hold = value.startswith(("hold.", "leg."))
        return action

    POOL_CREATED = "pool.created", "beside"
    POOL_RESIZED = "pool.resized", "beside"
    POOL_REMOVED = "pool.removed"
    POOL_ARCHIVED = "pool.archived"
    POOL_UNARCHIVED = "pool.unarchived"
    POOL_REPAIRED = "pool.repaired"
    POOL_RETURNED = "pool.returned"
    POOL_LIMITED = "pool.limited"
    HOLD_WAITING = "hold.waiting", "begins", "answers"
    HOLD_OFFERED = "hold.offered", "grants", "answers"
    HOLD_HELD = "hold.held", "begins", "grants", "answers"
    HOLD_EXTENDED = "hold.extended"
    HOLD_PARTLY_CONFIRMED = "hold.partly_confirmed"
    HOLD_PARTLY_RELEASED = "hold.partly_released"
    HOLD_CONFIRMED = "hold.confirmed"
    HOLD_RELEASED = "hold.released"
    HOLD_EXPIRED = "hold.expired"
    HOLD_RETURNED = "hold.returned"
    HOLD_REASSIGNED = "hold.reassigned", "answers"
    HOLD_RETIRED = "hold.retired"
    LEG_RETURNED = "leg.returned"
    RECORD_PUT = "record.put"
    LIMITS_CHANGED = "limits.changed"
    JOURNAL_BASELINE = "journal.baseline", "answers"
    JOURNAL_ERASED = "journal.erased"
    COMMAND_REFUSED = "command.refused"


HOLD_HELD: Final = Action.HOLD_HELD  # the most frequent ones: members of an enum are slow to look up
HOLD_CONFIRMED: Final = Action.HOLD_CONFIRMED
HOLD_RELEASED: Final = Action.HOLD_RELEASED


class Effect(Struct, frozen=True, gc=False, omit_defaults=True):
    """A pool after the change, and the delta of each counter."""

    pool: Pool
    total: int = 0
    held: int = 0
    consumed: int = 0
    loose: int = 0
    """Of the tally, if there is one; else of the pool."""
    waiting: int = 0
    children: int = 0
    used: int = 0
    """Of the tally."""
    tally: Tally | None = None
    """The tally of the account that the change concerns, after it; with 0 used, it is gone."""


class Change(Struct, frozen=True, gc=False, omit_defaults=True):
    """The fields of a hold that can change, after the change; `was` and `was_deadline` are from before.

    What is `UNSET` stays as it was. A field that is added later has this default, because the entries of earlier
    releases do not say it."""

    state: State
    was: State
    version: int
    legs: tuple[HeldLeg, ...]
    deadline: Slot | None = None
    was_deadline: Slot | None = None
    entity: str | None = None
    ended_at: Slot | None = None
    reason: str | None = None
    last_op: str | None = None
    returned_at: Slot | None = None
    above: tuple[Level, ...] = ()
    held_at: Slot | UnsetType = UNSET
    """Of an offer: when the units were granted."""
    fence: int | UnsetType = UNSET
    """Of an offer: the fence of the grant."""
    account: str | UnsetType | None = UNSET
    """Of a hold that moves to another account; `was_account` is from before."""
    was_account: Personal[str | None] = None

    @property
    def before(self) -> dict[str, object]:
        """What the change says of the hold before it: its state, and the fields with a `was_` that it changes."""
        changed = {name[4:]: getattr(self, name) for name in _WAS if getattr(self, name[4:]) is not UNSET}
        return {"state": self.was, **changed}


_WAS: Final = tuple(name for name in Change.__struct_fields__ if name.startswith("was_"))


class AskedLeg(Struct, frozen=True, gc=False, omit_defaults=True):
    """Units of one pool that a refused command asked for, or that were missing above such a pool."""

    pool: str
    quantity: int
    label: Personal[str | None] = None
    """The face's own name for the pool."""
    available: int | None = None
    """The units available on a pool that fell short, with its `total`. (For an account's limit: the units left, and the limit.)"""
    total: int | None = None


class RefusedCommand(Struct, frozen=True, gc=False, omit_defaults=True):
    """The request of a refused command, and the reason of the refusal."""

    command: str
    """`hold`, `confirm`, `resize_pool`, …: as in a batch."""
    reason: Reason
    """Why it was refused. (The `reason` of the entry is the one that the caller gave.)"""
    subject: str | None = None
    """What the refusal names, if that is another than the entry's subject: the pool that is missing, the operation id that was used for
    something else."""
    legs: tuple[AskedLeg, ...] = ()
    found: int | None = None
    """The number that caused the refusal, as in the caller's answer."""
    entity: Personal[str | None] = None
    account: Personal[str | None] = None
    op: str | None = None
    """The operation id. (The entry's own `op` is empty: it is set only on entries of executed commands.)"""

    @property
    def of_hold(self) -> bool:
        """Whether it named a hold; else a pool, or the limits."""
        return self.command in _OF_HOLDS


_OF_HOLDS: Final = frozenset(verb for verb, kind in COMMANDS.items() if kind.names == "hold")


class Entry(Struct, frozen=True, gc=False, omit_defaults=True):
    """One change of state, or a refusal, which changes none. The entry that creates a hold contains all of it (`hold`), later ones a `change`."""

    slot: Slot
    action: Action
    subject: str
    """The hold's id, the pool's id, kind/id of a record, or `~limits`."""
    tenant: str = ""
    effects: tuple[Effect, ...] = ()
    hold: StoredHold | None = None
    change: Change | None = None
    record: Record | None = None
    removed: bool = False
    """The subject was removed: a swept pool, a deleted record."""
    actor: Personal[str | None] = None
    correlation_id: str | None = None
    reason: Personal[str | None] = None
    op: str | None = None
    forced: bool = False
    part: bool = False
    """It has only the pools of this lane: the change of the hold itself is an entry in the hold's own lane."""
    client_id: str | None = None
    """The client that asked, as a server has authenticated it, independent of the actor that it names."""
    refused: RefusedCommand | None = None
    """Of `command.refused`, whose subject is what the command named: a hold, or its first pool."""
    trace: str | None = None
    """The W3C trace context (`traceparent`) of the call that asked, if it was recorded; an expiry has no call."""
