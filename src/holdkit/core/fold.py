"""Fold: how an entry becomes state. Live commands and replay share it, so they cannot disagree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import UNSET

from ..errors import PromiseBroken
from .entries import Action, Change, Entry
from .fields import compiled, defaults_of
from .model import Key, Pool, Record, RecordKey, StoredHold
from .outstanding import Tally, TallyKey


class Foldable(Protocol):
    """A state that entries can be folded into."""

    def put_pool(self, key: Key, pool: Pool | None, /) -> None:
        """Write or remove a pool."""
        ...

    def get_hold(self, key: Key, /) -> StoredHold | None:
        """Return the hold as it is."""
        ...

    def put_hold(self, hold: StoredHold, /) -> None:
        """Write a hold."""
        ...

    def drop_hold(self, key: Key, /) -> None:
        """Remove a hold."""
        ...

    def put_tally(self, key: TallyKey, tally: Tally | None, /) -> None:
        """Write or remove a tally."""
        ...

    def put_record(self, key: RecordKey, record: Record | None, /) -> None:
        """Write or remove a record."""
        ...

    def raise_floor(self, tenant: str, fence: int, /) -> None:
        """Let later pools of this tenant begin at this fence, or above."""
        ...


def fold(state: Foldable, entry: Entry) -> None:
    """Apply one entry's effects to the state."""
    removed = entry.removed
    for effect in entry.effects:
        pool = effect.pool
        gone = removed and pool.id == entry.subject  # its parent is only changed
        if gone:
            state.raise_floor(pool.tenant, pool.fence)
        state.put_pool((pool.tenant, pool.id), None if gone else pool)
        tally = effect.tally
        if tally is not None:
            state.put_tally((pool.tenant, pool.id, tally.account), tally if tally.used else None)
    if entry.hold is not None:
        state.put_hold(entry.hold)
        return
    if entry.change is not None:
        before = state.get_hold((entry.tenant, entry.subject))
        if before is None:
            raise PromiseBroken(f"an entry changes hold {entry.subject}, which was never held")
        state.put_hold(changed(before, entry.change))
    elif entry.record is not None:
        record = entry.record
        state.put_record(record.key, None if removed else record)
    elif entry.action is Action.HOLD_RETIRED and not entry.part:
        state.drop_hold((entry.tenant, entry.subject))


def _after(name: str) -> str:
    """Return the source of a field after a change: the change, if it has the field."""
    if name not in Change.__struct_fields__:
        return f"hold.{name}"
    may_be_silent = defaults_of(Change).get(name) is UNSET
    return f"hold.{name} if change.{name} is UNSET else change.{name}" if may_be_silent else f"change.{name}"


changed: Final[Callable[[StoredHold, Change], StoredHold]] = compiled(
    "hold, change",
    f"StoredHold({', '.join(map(_after, StoredHold.__struct_fields__))})",
    {"StoredHold": StoredHold, "UNSET": UNSET},
)
"""Return the hold after a change."""


def reconstruct(history: list[Entry]) -> StoredHold | None:
    """Fold one hold's history into its final state; for a dropped hold, the state that it had then."""
    hold: StoredHold | None = None
    for entry in history:
        if entry.hold is not None:
            hold = entry.hold
        elif entry.change is not None and hold is not None:
            hold = changed(hold, entry.change)
    return hold
