"""Limits as callers give and see them: intervals like a ttl, everything else as numbers. The core has its own, in slots."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from ..core import bounds
from ..core.bounds import BOUNDS, MEANING
from ..core.commands import Ttl
from ..core.limits import SPANS, beyond_bounds, limit_value
from ..core.model import SECOND
from ..core.validation import invalid
from ..errors import InvalidRequest
from .arguments import span
from .one_line import summary


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, repr_omit_defaults=True):
    """Every bound in one place. Intervals are given like a ttl: seconds, a timedelta, or text such as "90s", "5m", "30d". None means
    unbounded. docs/semantics.md has the least and the greatest value of each limit; `InvalidRequest` names them.

    The limits in force are returned as `LimitsInForce`. `version` counts the changes; it cannot be given.
    """

    max_pools: int | None = None
    """Pools of all tenants. With 0 no pool can be created."""
    max_holds: int | None = None
    """Live holds of all tenants. Holds that have ended are kept for `retention`, as far as there is room. With 0 no hold can be placed."""
    max_operations: int | None = None
    """Operation ids that are remembered. With 0 a call with an operation id is refused, unless it ends a hold."""
    retry_window: Ttl = timedelta(days=1)
    """How long an operation id is remembered; at age == window it is gone."""
    retention: Ttl = timedelta(days=30)
    """How long an ended hold can be read, from its last change; its journal entries stay. With 0 it is gone at once."""
    retention_consumed: Ttl = timedelta(days=400)
    """How long a hold is kept whose units a pool still counts as consumed: until then they can be returned by the hold. With 0 it is kept
    as long as any other."""
    min_ttl: Ttl = timedelta(microseconds=1)
    """The shortest ttl that a hold may ask for."""
    max_ttl: Ttl = timedelta(days=30)
    """The longest ttl that a hold may ask for."""
    max_claim_ttl: Ttl = timedelta(days=1)
    """The longest time for which a key may be held, however it is placed: by `claims.hold`, in a list, by a command. `extend` is bounded by
    `max_lifetime` alone."""
    max_lifetime: Ttl = timedelta(days=90)
    """How long a hold may live in all, extended or not."""
    max_legs: int = 1_000
    """Pools of one hold, those above them included."""
    max_due: int = 1_000
    """Due legs one transaction returns; a longer backlog goes first, in transactions of its own."""
    max_offers: int = 250
    """Offers to those who wait in line that one transaction makes for one tenant; the rest follow at once, in transactions of their own."""
    max_line: int = 100_000
    """Holds that wait in one line. With 0 nobody can join one."""
    max_batch: int = 1_000
    """Commands of one `apply`."""
    max_touched_legs: int = 10_000
    """Legs that one transaction touches, and so does one `apply`: those that its commands name, and those of the holds that they
    name, for each command anew. A single command is never refused for this: `max_legs` bounds it."""
    max_queue: int = 10_000
    """Commands of a tenant that wait for the group commit before its callers are turned away. While other tenants wait too, each may
    have fewer: as many as are free of twice this number. So one tenant cannot fill the queue."""
    lock_timeout: Ttl = timedelta(seconds=10)
    """How long a write waits for other processes before it is turned away. With 0 it is turned away as soon as it would have to wait."""
    call_timeout: Ttl = timedelta(seconds=30)
    """How long a whole call may take, unless `holdkit.context(timeout=…)` says otherwise."""
    version: int = 0

    def __post_init__(self) -> None:
        _checked({name: getattr(self, name) for name in BOUNDS})


class LimitsInForce(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits in force: intervals are timedeltas. Can be given to `connect` again, if nothing was changed."""

    retry_window: timedelta = timedelta(days=1)
    retention: timedelta = timedelta(days=30)
    retention_consumed: timedelta = timedelta(days=400)
    min_ttl: timedelta = timedelta(microseconds=1)
    max_ttl: timedelta = timedelta(days=30)
    max_claim_ttl: timedelta = timedelta(days=1)
    max_lifetime: timedelta = timedelta(days=90)
    lock_timeout: timedelta = timedelta(seconds=10)
    call_timeout: timedelta = timedelta(seconds=30)

    def __post_init__(self) -> None:
        """Accept what is stored: it may be older than the bounds."""

    __repr__ = summary


def slots_of(limits: Limits) -> bounds.Limits:
    """Convert a caller's limits to the core's; an `InvalidRequest` names the limit that is wrong."""
    if not isinstance(limits, Limits):
        raise invalid("limits", "limits_malformed", "must be a holdkit.Limits")
    if limits.version != 0:
        raise invalid("limits", "limits_malformed", "names a version, which is kept with the data")
    return bounds.Limits(**_checked({name: getattr(limits, name) for name in BOUNDS}))


def asked_slots(limits: Limits | None) -> bounds.Limits | None:
    """Convert a caller's limits to the core's, or None if there are none."""
    return None if limits is None else slots_of(limits)


def limits_of(limits: bounds.Limits) -> LimitsInForce:
    """Return the core's limits as callers see them."""
    found = {name: getattr(limits, name) for name in Limits.__struct_fields__}
    return LimitsInForce(**found | {name: timedelta(microseconds=found[name]) for name in SPANS})


def changes_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return new values by name, intervals as slots; an `InvalidRequest` names a limit that is not stored, or not within its bounds."""
    for name in given:
        if name not in MEANING:
            raise invalid(name, "limit_unknown", f"is not a limit that is stored with the data: {', '.join(MEANING)}")
    return _checked(given)


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return limits as the core counts them; an `InvalidRequest` names one that is not within its bounds."""
    found = {name: _slots(name, value) for name, value in given.items()}
    for name, value in found.items():
        limit_value(name, value)
    return found


def _slots(name: str, value: Any) -> Any:
    """Return one limit, an interval as slots."""
    if name not in SPANS:
        return value
    try:
        return span(value, name)
    except InvalidRequest as error:
        if error.code == f"{name}_malformed":
            raise
        raise beyond_bounds(name, too_much=error.code == f"{name}_too_long") from None


def in_seconds(limits: Limits) -> dict[str, float | int | None]:
    """Return the stored limits for documents: intervals in seconds."""
    return seconds_of({name: _slots(name, getattr(limits, name)) for name in MEANING})


def seconds_of(slots: Mapping[str, int | None]) -> dict[str, float | int | None]:
    """Convert limits of the core for documents: intervals in seconds."""
    return {name: value / SECOND if name in SPANS and value is not None else value for name, value in slots.items()}


def from_seconds(told: Mapping[str, Any], version: int) -> LimitsInForce:
    """Return the limits of a document; a limit that a newer server has is left out."""
    known = {name: value for name, value in told.items() if name in LimitsInForce.__struct_fields__}
    spans = {name: timedelta(microseconds=round(told[name] * SECOND)) for name in SPANS if name in told}
    return LimitsInForce(**{**known, **spans}, version=version)
