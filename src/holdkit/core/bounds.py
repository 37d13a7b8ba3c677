"""Every bound: how much there may be of everything, and for how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from .model import DAY, SECOND, Slot

if TYPE_CHECKING:
    from .retention import PastRetention


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every bound. Intervals are in slots (microseconds on a wall clock); None means unbounded. `version` (the number of
    changes), `past` (shorter retentions, oldest first) and what exists of erased names are stored with the data; callers never set them."""

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


MEANING: Final = ("max_pools", "max_holds", "max_operations", "retry_window", "retention",
                  "retention_consumed", "min_ttl", "max_ttl", "max_lifetime", "max_legs", "max_line")  # fmt: skip
"""The limits that change meaning: stored with the data, not taken from each `connect`."""
ERASED_NAMES: Final = ("erased_accounts", "erased_claims")
"""What an erasure stores with the limits, so that every transaction knows of it. They only grow."""
