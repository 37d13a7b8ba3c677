"""Limits as callers give and see them: intervals like a ttl, everything else as numbers. The core has its own, in slots."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from ..core import bounds
from ..core.bounds import MEANING
from ..core.commands import Ttl
from ..core.limits import SPANS, limit_value
from ..core.model import MAX_SLOT, SECOND
from ..core.validation import invalid
from .normalise import span


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Every bound in one place. Intervals are given like a ttl: seconds, a timedelta, or text such as "90s", "5m", "30d". The
    limits in force are returned as `LimitsInForce`. None means unbounded. `version` counts the changes; it cannot be given."""

    max_pools: int | None = None
    max_holds: int | None = None
    """Live holds. Holds that have ended are kept for `retention`, as far as there is room."""
    max_operations: int | None = None
    retry_window: Ttl = timedelta(days=1)
    """How long an operation id is remembered; at age == window it is gone."""
    retention: Ttl = timedelta(days=30)
    """How long an ended hold can be read, from its last change; its journal entries stay."""
    retention_consumed: Ttl = timedelta(days=400)
    """How long a hold is kept whose units a pool still counts as consumed: until then they can be returned by the hold."""
    min_ttl: Ttl = timedelta(microseconds=1)
    max_ttl: Ttl = timedelta(days=30)
    max_lifetime: Ttl = timedelta(days=90)
    max_legs: int = 1_000
    max_due: int = 1_000
    """Due legs one transaction returns; a longer backlog goes first, in transactions of its own."""
    max_offers: int = 250
    """Offers to those who wait in line that one transaction makes for one tenant; the rest follow at once, in transactions of their own."""
    max_line: int = 100_000
    """Holds that wait in one line."""
    max_batch: int = 1_000
    """Commands of one `apply`."""
    max_touched_legs: int = 10_000
    """Legs that one transaction touches, and so does one `apply`: those that its commands name, and those of the holds that they
    name, for each command anew. A single command is never refused for this: `max_legs` bounds it."""
    max_queue: int = 10_000
    """Commands of a tenant that wait for the group commit before its callers are turned away. While other tenants wait too, each may
    have fewer: as many as are free of twice this number. So one tenant cannot fill the queue."""
    lock_timeout: Ttl = timedelta(seconds=10)
    """How long a write waits for other processes before it is turned away."""
    call_timeout: Ttl = timedelta(seconds=30)
    """How long a whole call may take, unless `holdkit.context(timeout=…)` says otherwise."""
    version: int = 0


class LimitsInForce(Limits, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits in force: intervals are timedeltas. Can be given to `connect` again, if nothing was changed."""

    retry_window: timedelta = timedelta(days=1)
    retention: timedelta = timedelta(days=30)
    retention_consumed: timedelta = timedelta(days=400)
    min_ttl: timedelta = timedelta(microseconds=1)
    max_ttl: timedelta = timedelta(days=30)
    max_lifetime: timedelta = timedelta(days=90)
    lock_timeout: timedelta = timedelta(seconds=10)


BOUNDS = Limits.__struct_fields__[:-1]
"""All limits that can be given."""


def slots_of(limits: Limits) -> bounds.Limits:
    """The limits that a caller gave as the core's; an `InvalidRequest` names the limit that is wrong."""
    if not isinstance(limits, Limits):
        raise invalid("limits", "limits_malformed", "must be a holdkit.Limits")
    if limits.version != 0:
        raise invalid("limits", "limits_malformed", "names a version, which is kept with the data")
    asked = {name: _value(name, getattr(limits, name)) for name in BOUNDS}
    for name, value in asked.items():
        limit_value(name, value)
    if asked["call_timeout"] == 0:
        raise invalid("call_timeout", "call_timeout_too_short", "must be above 0: no call would ever be in time")
    if asked["max_offers"] == 0:
        raise invalid("max_offers", "max_offers_too_small", "must be at least 1: no line would ever be served")
    return bounds.Limits(**asked)


def asked_slots(limits: Limits | None) -> bounds.Limits | None:
    """The same, for limits that may be None."""
    return None if limits is None else slots_of(limits)


def limits_of(limits: bounds.Limits) -> LimitsInForce:
    """The core's limits as callers see them."""
    found = {name: getattr(limits, name) for name in Limits.__struct_fields__}
    return LimitsInForce(**found | {name: timedelta(microseconds=found[name]) for name in SPANS})


def changes_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """New values by name, intervals as slots. Other values are checked with the command."""
    for name in given:
        if name not in MEANING:
            raise invalid(name, "limit_unknown", f"is not a limit that is stored with the data: {', '.join(MEANING)}")
    return {name: _value(name, value) for name, value in given.items()}


def _value(name: str, value: Any) -> Any:
    """One limit, an interval as slots."""
    if name not in SPANS:
        return value
    slots = span(value, name)
    if slots < 0:
        raise invalid(name, f"{name}_too_short", "must not be less than 0")
    if slots > MAX_SLOT:
        raise invalid(name, f"{name}_too_long", "is longer than any clock here can count")
    return slots


def in_seconds(limits: Limits) -> dict[str, float | int | None]:
    """The stored limits for documents: intervals in seconds."""
    return seconds_of(changes_of({name: getattr(limits, name) for name in MEANING}))


def seconds_of(slots: Mapping[str, int | None]) -> dict[str, float | int | None]:
    """Some of the core's limits for documents."""
    return {name: value / SECOND if name in SPANS and value is not None else value for name, value in slots.items()}


def from_seconds(told: Mapping[str, Any], version: int) -> LimitsInForce:
    """The limits of a document; a limit that a newer server has is left out."""
    known = {name: value for name, value in told.items() if name in LimitsInForce.__struct_fields__}
    spans = {name: timedelta(microseconds=round(told[name] * SECOND)) for name in SPANS if name in told}
    return LimitsInForce(**{**known, **spans}, version=version)
