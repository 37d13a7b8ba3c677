"""Operation records in memory, by key and by end. There is one per command that has an operation id: they are kept small."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

from ...core.model import Key, Slot, StoredHold
from ...core.outcomes import Done, Operation

_id_first: Final = itemgetter(1, 0)


class Ends(Struct):
    """Keys in order of slot, those of one slot in order of arrival. Two columns: a tuple for each row would weigh four times as much."""

    slots: list[Slot] = []
    keys: list[Key] = []

    def __len__(self) -> int:
        return len(self.keys)

    def file(self, slot: Slot, key: Key) -> None:
        """Put a key in its place."""
        slots = self.slots
        if not slots or slots[-1] <= slot:  # mostly that is the end
            slots.append(slot)
            self.keys.append(key)
        else:
            at = bisect_right(slots, slot)
            slots.insert(at, slot)
            self.keys.insert(at, key)

    def take_out(self, slot: Slot, key: Key) -> None:
        """Remove a key that is there."""
        at = self.keys.index(key, bisect_left(self.slots, slot), bisect_right(self.slots, slot))
        del self.slots[at], self.keys[at]

    def count(self, until: Slot) -> int:
        """Count the entries at slots up to `until`."""
        return bisect_right(self.slots, until)

    def any(self, until: Slot) -> bool:
        """Return whether there are any entries up to `until`."""
        return bool(self.keys) and self.slots[0] <= until

    def first(self, count: int) -> Iterator[tuple[Slot, Key]]:
        """Yield the first `count` entries."""
        return islice(zip(self.slots, self.keys, strict=True), count)

    def drop(self, count: int) -> list[Key]:
        """Remove up to `count` entries from the front and return their keys."""
        gone = self.keys[:count]
        del self.slots[:count], self.keys[:count]
        return gone


class Order(Ends):
    """Keys in order of (slot, id, tenant)."""

    def file(self, slot: Slot, key: Key) -> None:
        """Put a key in its place."""
        slots, keys = self.slots, self.keys
        if not keys or slots[-1] < slot or (slots[-1] == slot and keys[-1][1] < key[1]):  # mostly that is the end
            slots.append(slot)
            keys.append(key)
        else:
            at, end = self._position(slot, key)
            slots.insert(end, slot)  # anywhere among its equals, and there fewest have to move
            keys.insert(at, key)

    def take_out(self, slot: Slot, key: Key) -> None:
        """Remove a key that is there."""
        at, end = self._position(slot, key)
        found = self.keys[at] if at < end else None
        assert found == key, "an order has lost one of its rows"
        del self.slots[end - 1], self.keys[at]

    def _position(self, slot: Slot, key: Key) -> tuple[int, int]:
        """Return where the key stands or would stand, and where its slot ends."""
        first, end = bisect_left(self.slots, slot), bisect_right(self.slots, slot)
        return bisect_left(self.keys, _id_first(key), first, end, key=_id_first), end


class Grant(Struct, frozen=True, gc=False):
    """The record of an operation that placed a hold, in one piece: all that is not in the hold itself."""

    fingerprint: str
    until: Slot
    slot: Slot
    hold: StoredHold
    seq: int
    token: str

    def whole(self, key: Key) -> Operation:
        """Return the record as the core knows it."""
        outcome = Done(self.slot, self.hold, token=self.token)
        return Operation(key[0], key[1], self.fingerprint, self.until, outcome, self.seq)


class Operations(Mapping[Key, Operation]):
    """Store operations by key. Most are grants, which take less memory."""

    def __init__(self) -> None:
        self._rows: dict[Key, Grant | Operation] = {}
        self.ends = Ends()

    def __getitem__(self, key: Key) -> Operation:
        row = self._rows[key]
        return row.whole(key) if isinstance(row, Grant) else row

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: Key, default: Any = None) -> Any:
        """Return the record, if there is one. (A `Mapping` would try and fail, which is slow: new operations are the rule.)"""
        row = self._rows.get(key)
        return default if row is None else row.whole(key) if isinstance(row, Grant) else row

    def put(self, operation: Operation) -> None:
        """Write a record, in place of an older one of that id."""
        key, until, outcome = (operation.tenant, operation.id), operation.until, operation.outcome
        if key in self._rows:
            self.ends.take_out(self._rows[key].until, key)
        row: Grant | Operation = operation
        if isinstance(outcome, Done) and outcome.hold is not None and outcome.token is not None:  # a hold just placed
            row = Grant(operation.fingerprint, until, outcome.slot, outcome.hold, operation.seq, outcome.token)
        self._rows[key] = row
        self.ends.file(until, key)

    def after(self, slot: Slot) -> int:
        """Count the operations whose window ends after a slot."""
        return len(self.ends) - self.ends.count(slot)

    def forget(self, slot: Slot, limit: int) -> None:
        """Drop those whose window ends by a slot, the earliest first."""
        for key in self.ends.drop(min(limit, self.ends.count(slot))):
            del self._rows[key]
