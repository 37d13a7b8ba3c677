"""Retention over time: which holds have retired under the current `retention`, or under shorter ones in the past."""

from __future__ import annotations

from msgspec import Struct

from .bounds import Limits
from .model import Slot


class PastRetention(Struct, frozen=True, gc=False, array_like=True):
    """A `retention` that was in force until a slot, and was shorter than every later one."""

    until: Slot
    retention: Slot


def retired_until(limits: Limits, now: Slot) -> Slot:
    """Return the latest slot of a last change that has retired by `now`: under the current retention, or under an earlier one while it was
    in force. So the answer does not depend on whether a row was pruned before the retention was raised."""
    return max([now - limits.retention, *(past.until - past.retention for past in limits.past)])


def shortest_retention(limits: Limits, since: Slot) -> Slot:
    """Return the shortest retention in force at any time since a slot."""
    return min([limits.retention, *(past.retention for past in limits.past if past.until >= since)])
