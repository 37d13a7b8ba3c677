"""Every bound: how much there may be of everything, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from .model import DAY, MAX_QUANTITY, SECOND, Slot

if TYPE_CHECKING:
    from .retention import PastRetention


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every bound. Intervals are in slots (microseconds on a wall clock); None means unbounded; `BOUNDS` has what each may be.
    `version` (the number of changes), `past` (shorter retentions, oldest first) and what exists of erased names are stored with the
    data; callers never set them."""

    max_pools: int | None = None
    max_holds: int | None = None
    """Live holds; terminal ones are kept for `retention` while there is room."""
    max_operations: int | None = None
    retry_window: Slot = DAY
    """How long an operation id is remembered; at age == window it is gone."""
    retention: Slot = 30 * DAY
    """How long an ended hold can be read, from its last change; its journal entries stay."""
    retention_consumed: Slot = 400 * DAY
    """How long a hold is kept whose units a pool still counts as consumed: until then the hold can return them."""
    min_ttl: Slot = 1
    max_ttl: Slot = 30 * DAY
    max_claim_ttl: Slot = DAY
    """The longest time for which a key may be held when it is placed; `extend` is bounded by `max_lifetime` alone."""
    max_lifetime: Slot = 90 * DAY
    max_legs: int = 1_000
    max_due: int = 1_000
    """Due legs that one transaction returns; a longer backlog goes first, in separate transactions."""
    max_offers: int = 250
    """Offers that one transaction makes for one tenant; the rest follow in separate transactions."""
    max_line: int = 100_000
    """Holds that wait in one line."""
    max_batch: int = 1_000  # commands of one `apply`
    max_touched_legs: int = 10_000
    """Legs that one transaction touches: those that its commands name, and those of the holds that they name."""
    max_queue: int = 10_000  # queued commands of a tenant that is alone; beyond that, its callers get Overloaded
    lock_timeout: Slot = 10 * SECOND  # how long a write waits for other processes before it gives up with Overloaded
    call_timeout: Slot = 30 * SECOND  # how long a whole call may take, unless its context says otherwise
    audit_refusals: bool = False  # no bound: whether refused commands get an entry in the journal too; of this process
    erased_accounts: int = 0  # no bound: how many stubs an erased account may have by now (`core.erased_names`)
    erased_claims: int = 0  # the same: 1 if a claim was erased while it was taken
    version: int = 0
    past: tuple[PastRetention, ...] = ()


class Bound(NamedTuple):
    """The values that a limit may have: from `least` to `greatest`, in slots if it is an interval."""

    least: int
    greatest: int
    is_interval: bool = False
    is_stored: bool = False
    """Whether it changes what answers mean: then it is stored with the data, not taken from each `connect`."""
    may_be_none: bool = False
    """Whether None is allowed, for no bound."""


LONGEST_INTERVAL: Final = 100_000 * DAY
"""Any slot of this century and two such intervals are less than 2^63, so no engine's arithmetic overflows."""
LONGEST_LOCK_TIMEOUT: Final = 10 * DAY
"""PostgreSQL counts timeouts in 31 bits of milliseconds; a session's longest one is twice this and ten seconds."""
MOST_LEGS: Final = 10_000
"""Legs of one hold, whatever the limits are."""

BOUNDS: Final = {
    "max_pools": Bound(0, MAX_QUANTITY, is_stored=True, may_be_none=True),
    "max_holds": Bound(0, MAX_QUANTITY, is_stored=True, may_be_none=True),
    "max_operations": Bound(0, MAX_QUANTITY, is_stored=True, may_be_none=True),
    "retry_window": Bound(1, LONGEST_INTERVAL, is_interval=True, is_stored=True),
    "retention": Bound(0, LONGEST_INTERVAL, is_interval=True, is_stored=True),
    "retention_consumed": Bound(0, LONGEST_INTERVAL, is_interval=True, is_stored=True),
    "min_ttl": Bound(1, LONGEST_INTERVAL, is_interval=True, is_stored=True),
    "max_ttl": Bound(1, LONGEST_INTERVAL, is_interval=True, is_stored=True),
    "max_claim_ttl": Bound(1, LONGEST_INTERVAL, is_interval=True, is_stored=True),
    "max_lifetime": Bound(1, LONGEST_INTERVAL, is_interval=True, is_stored=True),
    "max_legs": Bound(1, MOST_LEGS, is_stored=True),
    "max_due": Bound(1, 10_000),
    "max_offers": Bound(1, 10_000),
    "max_line": Bound(0, MAX_QUANTITY, is_stored=True),
    "max_batch": Bound(1, 10_000),
    "max_touched_legs": Bound(1, 1_000_000),
    "max_queue": Bound(1, 1_000_000),
    "lock_timeout": Bound(0, LONGEST_LOCK_TIMEOUT, is_interval=True),
    "call_timeout": Bound(SECOND // 1_000, LONGEST_INTERVAL, is_interval=True),
}
"""Each limit that callers give, in the order of the fields. Checks, messages and the table of docs/semantics.md follow from it."""
MEANING: Final = tuple(name for name, bound in BOUNDS.items() if bound.is_stored)
"""The limits that change meaning: stored with the data, not taken from each `connect`."""
ERASED_NAMES: Final = ("erased_accounts", "erased_claims")
"""What an erasure stores with the limits, so that every transaction knows of it. They only grow."""
