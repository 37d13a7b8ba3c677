"""Operation records in memory, by key and by age. There is one per command that has an operation id: they are kept small."""

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
    slot: Slot
    hold: StoredHold
    seq: int
    token: str

    def whole(self, key: Key) -> Operation:
        """As the core knows it."""
        outcome = Done(self.hold.held_at, self.seq, self.hold, token=self.token)
        return Operation(key[0], key[1], self.fingerprint, self.slot, outcome)


class Operations(Mapping[Key, Operation]):
    """A table of the core's records, most of which are grants."""

    def __init__(self) -> None:
        self._rows: dict[Key, Grant | Operation] = {}
        self.ages = Order()

    def __getitem__(self, key: Key) -> Operation:
        row = self._rows[key]
        return row.whole(key) if isinstance(row, Grant) else row

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operations) and (self._rows, self.ages) == (other._rows, other.ages)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def get(self, key: Key, default: Any = None) -> Any:
        """The record, if there is one. (A `Mapping` would try and fail, which is slow: new operations are the rule.)"""
        return self[key] if key in self._rows else default

    def put(self, operation: Operation) -> None:
        """Write a record, in place of an older one of that id."""
        key, slot, outcome = operation.key, operation.slot, operation.outcome
        before = self._rows.pop(key, None)
        if before is not None:
            self.ages.take_out(before.slot, key)
        if isinstance(outcome, Done) and outcome.hold is not None and outcome.token is not None:  # a hold just placed
            self._rows[key] = Grant(operation.fingerprint, slot, outcome.hold, outcome.seq, outcome.token)
        else:
            self._rows[key] = operation
        self.ages.file(slot, key)

    def since(self, slot: Slot) -> int:
        """How many were answered after a slot."""
        return len(self.ages) - self.ages.count(slot)

    def forget(self, until: Slot, limit: int) -> None:
        """Drop those answered up to a slot, oldest first."""
        for key in self.ages.drop(min(limit, self.ages.count(until))):
            del self._rows[key]
