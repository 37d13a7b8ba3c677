"""Orders: keys sorted by a slot, so that nothing ever has to be searched.

Time mostly appends at the end and takes from the front.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Final

from msgspec import Struct

from ...core.model import Key, Slot

_id_first: Final = itemgetter(1, 0)


class Order(Struct):
    """Keys in order of (slot, id, tenant). Two columns: a tuple for each row would weigh four times as much."""

    slots: list[Slot] = []
    keys: list[Key] = []

    def __len__(self) -> int:
        return len(self.keys)

    def file(self, slot: Slot, key: Key) -> None:
        """Put a key in its place."""
        slots, keys = self.slots, self.keys
        if not keys or slots[-1] < slot or (slots[-1] == slot and keys[-1][1] < key[1]):  # mostly that is the end
            slots.append(slot)
            keys.append(key)
        else:
            at, end = self._place(slot, key)
            slots.insert(end, slot)  # anywhere among its equals, and there fewest have to move
            keys.insert(at, key)

    def take_out(self, slot: Slot, key: Key) -> None:
        """Remove a key that is there."""
        at, end = self._place(slot, key)
        found = self.keys[at] if at < end else None
        assert found == key, "an order has lost one of its rows"
        del self.slots[end - 1], self.keys[at]

    def _place(self, slot: Slot, key: Key) -> tuple[int, int]:
        """Where the key stands or would stand, and where its slot ends."""
        first, end = bisect_left(self.slots, slot), bisect_right(self.slots, slot)
        return bisect_left(self.keys, _id_first(key), first, end, key=_id_first), end

    def count(self, until: Slot) -> int:
        """How many stand at slots up to `until`."""
        return bisect_right(self.slots, until)

    def any(self, until: Slot) -> bool:
        """Whether there are any."""
        return bool(self.keys) and self.slots[0] <= until

    def first(self, count: int) -> Iterator[tuple[Slot, Key]]:
        """So many from the front."""
        return islice(zip(self.slots, self.keys, strict=True), count)

    def drop(self, count: int) -> list[Key]:
        """Take so many off the front, as far as there are any."""
        gone = self.keys[:count]
        del self.slots[:count], self.keys[:count]
        return gone
