"""The points a run of many seeds must have reached, often: a run that never came there proves nothing about it."""

from __future__ import annotations

from typing import Final

from .running import Totals

CALLS: Final = ("append", "create", "cut", "open", "read", "remove", "rename", "sync", "sync_directory")
"""Every call of the disk port that can fail."""

POINTS: Final = (
    *(f"{what} at {call}" for what in ("cut", "error") for call in CALLS),
    "cut during birth", "cut during recovery", "cut during snapshot", "error during recovery", "process killed",
    "in flight lost", "in flight survived", "in flight survived in part", "left out", "unknown", "stayed up in doubt",
    "asked again", "open refused", "rot refused", "rot survived", "snapshot", "snapshot failed", "restored from a snapshot",
    "reopened", "several segments", "came to rest", "done", "replayed", "aborted", "hold_expired", "hold_retired",
    "hold retired", "limits changed", "past retention", "quantity_exceeds_consumed",
    "hold_table_full", "insufficient_capacity", "operation_conflict", "operation_table_full", "pool_table_full",
    "version_conflict", "not_owner", "already_confirmed", "already_released",
    *(f"saga: {what}" for what in ("done", "aborted", "parked", "taken over", "another attempt", "too late", "unsettled",
      "driver killed", "killed behind the point of no return", "effect run again", "hold released by force")),
)  # fmt: skip

FLOOR: Final = 100
"""How often each must be reached in `SEEDS` seeds; fewer seeds ask for less in proportion."""
SEEDS: Final = 2_000
OPERATIONS: Final = 50
"""Commands per seed, on average, at least."""


def too_seldom(totals: Totals) -> dict[str, int]:
    """The points that were not reached often enough, with their counts; empty if all is well."""
    floor = min(FLOOR, FLOOR * totals.seeds // SEEDS)
    found = {name: totals.reached.get(name, 0) for name in POINTS}
    rare = {name: count for name, count in found.items() if count < floor}
    if totals.operations < OPERATIONS * totals.seeds:
        rare["operations"] = totals.operations
    return rare
