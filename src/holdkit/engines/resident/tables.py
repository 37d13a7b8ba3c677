"""The rows, and the orders kept over them so that nothing ever has to be searched.

Every order is a sorted list: time mostly appends at its end and takes from its front. Knows no rule: what is due, live or
retired is the core's word; here is only where such rows stand.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Any, TypeAlias

from ...core.model import Key, Pool, Record, RecordKey, Slot, State, StoredHold
from ...core.outcomes import Operation
from ...core.view import DueLeg

Moment: TypeAlias = tuple[Slot, str, str]
"""(slot, id, tenant)."""


def file(order: list[Any], item: Any) -> None:
    """Put an item in its place; mostly that is the end."""
    if not order or order[-1] < item:
        order.append(item)
    else:
        insort(order, item)


def take_out(order: list[Any], item: object) -> None:
    """Remove an item that is there."""
    index = bisect_left(order, item)
    assert order[index] == item, "an order has lost one of its rows"
    del order[index]


class Tables:
    """What a SQL engine would keep in tables and their indexes."""

    def __init__(self) -> None:
        self.pools: dict[Key, Pool] = {}
        self.holds: dict[Key, StoredHold] = {}
        self.get_hold = self.holds.get
        self.operations: dict[Key, Operation] = {}
        self.records: dict[RecordKey, Record] = {}
        self.fence_floor = 0
        self.last_slot: Slot = 0
        self.legs: dict[Key, dict[str, int]] = {}  # pool → hold id → outstanding units
        self.deadlines: dict[Key, list[DueLeg]] = {}  # pool → its outstanding legs that have a deadline
        self.held = 0  # holds in state held, with and without a deadline
        self.live: list[Moment] = []  # those with a deadline
        self.leftover: list[Moment] = []  # expired holds with legs still out on other pools
        self.ended: list[Moment] = []  # all others, by the slot at which they ended
        self.idle: list[Key] = []  # on-demand pools that hold nothing
        self.answered: list[Moment] = []  # operations by age

    # Pools, operations, records

    def put_pool(self, key: Key, pool: Pool | None) -> None:
        """Write or remove a pool."""
        before = self.pools.get(key)
        was_idle = before is not None and _idle(before)
        if pool is None:
            del self.pools[key]
        else:
            self.pools[key] = pool
            self.last_slot = max(self.last_slot, pool.slot)
        if was_idle != (is_idle := pool is not None and _idle(pool)):
            insort(self.idle, key) if is_idle else take_out(self.idle, key)

    def put_operation(self, operation: Operation) -> None:
        """Write an operation, in place of an older one of that id."""
        before = self.operations.get(operation.key)
        if before is not None:
            take_out(self.answered, (before.slot, before.id, before.tenant))
        self.operations[operation.key] = operation
        file(self.answered, (operation.slot, operation.id, operation.tenant))

    def put_record(self, key: RecordKey, record: Record | None) -> None:
        """Write or remove a record."""
        if record is None:
            self.records.pop(key, None)
        else:
            self.records[key] = record

    # Holds and their legs

    def put_hold(self, hold: StoredHold) -> None:
        """Write a hold and the difference of its outstanding legs."""
        key = (hold.tenant, hold.id)
        before = self.holds.get(key)
        if before is not None:
            self._unshelve(before)
        self.holds[key] = hold
        self._shelve(hold)
        if before is None:
            self._put_legs(hold)
        elif before.legs is not hold.legs or before.deadline != hold.deadline:
            self._drop_legs(before)
            self._put_legs(hold)

    def _shelf(self, hold: StoredHold) -> tuple[list[Moment], Slot | None]:
        if hold.state is State.HELD:
            return self.live, hold.deadline
        return (self.leftover, hold.deadline) if hold.open else (self.ended, hold.ended_at)

    def _shelve(self, hold: StoredHold) -> None:
        self.held += hold.state is State.HELD
        shelf, slot = self._shelf(hold)
        if slot is not None:
            file(shelf, (slot, hold.id, hold.tenant))

    def _unshelve(self, hold: StoredHold) -> None:
        self.held -= hold.state is State.HELD
        shelf, slot = self._shelf(hold)
        if slot is not None:
            take_out(shelf, (slot, hold.id, hold.tenant))

    def _put_legs(self, hold: StoredHold) -> None:
        for leg in hold.legs:
            if leg.held:
                pool = (hold.tenant, leg.pool)
                if pool not in self.legs:
                    self.legs[pool] = {}
                self.legs[pool][hold.id] = leg.held
                if hold.deadline is not None:
                    if pool not in self.deadlines:
                        self.deadlines[pool] = []
                    file(self.deadlines[pool], (hold.deadline, hold.id))

    def _drop_legs(self, hold: StoredHold) -> None:
        for leg in hold.legs:
            if leg.held:
                pool = (hold.tenant, leg.pool)
                units = self.legs[pool]
                del units[hold.id]
                if not units:
                    del self.legs[pool]
                if hold.deadline is not None:
                    order = self.deadlines[pool]
                    take_out(order, (hold.deadline, hold.id))
                    if not order:
                        del self.deadlines[pool]

    # What is due

    def any_due(self, until: Slot) -> bool:
        """Whether any leg anywhere has a deadline up to `until`."""
        return any(order and order[0][0] <= until for order in (self.live, self.leftover))

    def due(self, pool: Key, until: Slot, limit: int | None = None) -> list[DueLeg]:
        """A pool's outstanding legs with a deadline up to `until`, earliest first."""
        order = self.deadlines.get(pool)
        if order is None or order[0][0] > until:
            return []
        return order[: bisect_left(order, (until + 1,))][:limit]

    def live_at(self, now: Slot) -> int:
        """Holds in state held whose deadline has not come."""
        return self.held - bisect_left(self.live, (now + 1, "", ""))

    def due_holds(self, now: Slot, limit: int, max_legs: int) -> tuple[list[Key], bool]:
        """Holds with due legs anywhere, in order of (deadline, id), and whether there are more than fit."""
        found: list[Key] = []
        legs = 0
        for _, hold_id, tenant in merge(_until(self.live, now), _until(self.leftover, now)):
            legs += sum(1 for leg in self.holds[tenant, hold_id].legs if leg.held)
            if len(found) == limit or (found and legs > max_legs):
                return found, True
            found.append((tenant, hold_id))
        return found, False

    # What may go

    def forget_operations(self, until: Slot, limit: int) -> None:
        """Drop operations answered up to a slot, oldest first."""
        count = min(limit, bisect_left(self.answered, (until + 1, "", "")))
        for _, op, tenant in islice(self.answered, count):
            del self.operations[tenant, op]
        del self.answered[:count]

    def forget_holds(self, count: int) -> list[Key]:
        """Drop so many ended holds, oldest first, as far as there are any."""
        gone = [(tenant, hold_id) for _, hold_id, tenant in islice(self.ended, count)]
        for key in gone:
            del self.holds[key]
        del self.ended[:count]
        return gone

    def ended_until(self, slot: Slot) -> int:
        """How many holds had ended by then."""
        return bisect_left(self.ended, (slot + 1, "", ""))

    def operations_since(self, slot: Slot) -> int:
        """How many operations were answered after a slot."""
        return len(self.answered) - bisect_left(self.answered, (slot + 1, "", ""))


def _idle(pool: Pool) -> bool:
    return pool.on_demand and not pool.held and not pool.consumed


def _until(order: list[Moment], slot: Slot) -> Iterator[Moment]:
    return islice(order, bisect_left(order, (slot + 1, "", "")))
