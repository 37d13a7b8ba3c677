"""Operation records in memory, by key and by end. There is one per command that has an operation id: they are kept small."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ...core.model import Key, Slot, StoredHold
from ...core.outcomes import Done, Operation
from .orders import Order


class Grant(Struct, frozen=True, gc=False):
    """The record of an operation that placed a hold, in one piece: all that is not in the hold itself."""

    fingerprint: str
    until: Slot
    hold: StoredHold
    seq: int
    token: str

    def whole(self, key: Key) -> Operation:
        """As the core knows it."""
        outcome = Done(self.hold.held_at, self.hold, token=self.token)
        return Operation(key[0], key[1], self.fingerprint, self.until, outcome, self.seq)


class Operations(Mapping[Key, Operation]):
    """A table of the core's records, most of which are grants."""

    def __init__(self) -> None:
        self._rows: dict[Key, Grant | Operation] = {}
        self.ends = Order()

    def __getitem__(self, key: Key) -> Operation:
        row = self._rows[key]
        return row.whole(key) if isinstance(row, Grant) else row

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operations) and (self._rows, self.ends) == (other._rows, other.ends)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def get(self, key: Key, default: Any = None) -> Any:
        """The record, if there is one. (A `Mapping` would try and fail, which is slow: new operations are the rule.)"""
        return self[key] if key in self._rows else default

    def put(self, operation: Operation) -> None:
        """Write a record, in place of an older one of that id."""
        key, until, outcome = operation.key, operation.until, operation.outcome
        before = self._rows.pop(key, None)
        if before is not None:
            self.ends.take_out(before.until, key)
        if isinstance(outcome, Done) and outcome.hold is not None and outcome.token is not None:  # a hold just placed
            self._rows[key] = Grant(operation.fingerprint, until, outcome.hold, operation.seq, outcome.token)
        else:
            self._rows[key] = operation
        self.ends.file(until, key)

    def after(self, slot: Slot) -> int:
        """How many have a window that ends after a slot."""
        return len(self.ends) - self.ends.count(slot)

    def forget(self, slot: Slot, limit: int) -> None:
        """Drop those whose window ends by a slot, the earliest first."""
        for key in self.ends.drop(min(limit, self.ends.count(slot))):
            del self._rows[key]
