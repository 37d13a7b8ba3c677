"""The shadow: a memory engine that was given what the log engine acknowledged, and how the two are compared.

It looks into both engines' tables on purpose: what a read would hide (an index, a pruned row) must agree too.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...core.limits import LIMITS_KEY
from ...core.model import Slot
from ...core.reading import JournalRow, ReadJournal, entry_of
from ...engines.clocks import Clock
from ...engines.log.engine import LogEngine
from ...engines.memory import MemoryEngine
from ...engines.resident.engine import ResidentEngine
from .plan import Apply

TABLES = (
    "pools", "holds", "operations", "records", "legs", "deadlines", "held", "live", "leftover", "kept", "idle",
    "resting", "closing", "linked", "fence_floor", "last_slot",
)  # fmt: skip


class Broken(AssertionError):
    """A promise was broken in a simulated life."""


def journal_of(engine: ResidentEngine) -> list[JournalRow]:
    """Every entry."""
    return engine.read(ReadJournal(None, {}, 1_000_000))


def difference(mine: ResidentEngine, theirs: ResidentEngine) -> str | None:
    """The first table that differs, in words."""
    for name in TABLES:
        ours, found = getattr(mine._tables, name), getattr(theirs._tables, name)
        if ours != found:
            return f"{name} differ: {found} instead of {ours}"
    if mine.limits != theirs.limits:
        return f"limits differ: {theirs.limits} instead of {mine.limits}"
    return None


def copy_of(engine: ResidentEngine, clock: Clock, journal: Iterable[JournalRow]) -> MemoryEngine:
    """A memory engine in the same state, with the same journal."""
    twin = MemoryEngine(clock=clock, limits=engine.stored.created, journal=1_000_000)
    mine, theirs = twin._tables, engine._tables
    for pool in theirs.pools.values():
        mine.put_pool(pool.key, pool)
    for hold in theirs.holds.values():
        mine.put_hold(hold)
    for operation in theirs.operations.values():
        mine.operations.put(operation)
    for record in theirs.records.values():
        mine.put_record(record.key, record)
    twin.stored.adopt(mine.records.get(LIMITS_KEY))
    mine.fence_floor, mine.last_slot = theirs.fence_floor, theirs.last_slot
    twin._journal.append([entry_of(row) for row in journal])
    return twin


def after(shadow: MemoryEngine, step: Apply) -> MemoryEngine:
    """The shadow as it would be if this batch had been applied too."""
    twin = copy_of(shadow, lambda: step.slot, journal_of(shadow))
    twin.apply(step.groups)
    return twin


def resettled(
    why: str, shadow: MemoryEngine, found: LogEngine, twins: list[MemoryEngine], clock: Clock
) -> tuple[MemoryEngine, str]:
    """The shadow after a crash or an error: what was acknowledged, and of one batch in flight a whole part or nothing.

    `twins` are what each batch in flight would have come to. Also says which: lost, survived or survived in part.
    """
    mine, theirs = journal_of(shadow), journal_of(found)
    if theirs[: len(mine)] != mine:
        raise Broken(f"{why}: an acknowledged entry is gone: {len(theirs)} entries, {len(mine)} acknowledged")
    for candidate in (shadow, *twins):
        if journal_of(candidate) == theirs and difference(candidate, found) is None:
            return copy_of(candidate, clock, theirs), "lost" if candidate is shadow else "survived"
    if not any(len(theirs) > len(mine) and journal_of(twin)[: len(theirs)] == theirs for twin in twins):
        reason = difference(shadow, found) or f"{len(theirs)} entries, {len(mine)} acknowledged"
        raise Broken(f"{why}: neither what was acknowledged nor a part of what was in flight: {reason}")
    latest = max(clock(), found._tables.last_slot)  # a part that survived has pruned by its own slot
    check_operations(why, shadow, twins, found, latest)
    return copy_of(found, clock, theirs), "survived in part"  # its expiries; `verify` vouches for the rows


def check_operations(why: str, shadow: MemoryEngine, twins: list[MemoryEngine], found: LogEngine, now: Slot) -> None:
    """Each record is as acknowledged, or as a batch in flight would have it, or past its window."""
    before, there = shadow._tables.operations, found._tables.operations
    for key in sorted({*before, *there}):
        old = before.get(key)
        allowed = [old, *(twin._tables.operations.get(key) for twin in twins)]
        if old is not None and old.until <= now:
            allowed.append(None)
        if there.get(key) not in allowed:
            raise Broken(f"{why}: the record of operation {key} is not what was acknowledged")
