"""The rows of an engine that keeps everything in memory, and the sorted indexes over them, so that no call scans a table.

Decides nothing: the core says what is due, live or retired; the indexes here only find such rows.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import merge
from itertools import islice
from typing import Final

from ...core.ladders.retiring import Keeping, keeping, kept_for
from ...core.model import Key, Limits, Pool, Record, RecordKey, Slot, State, StoredHold
from ...core.table_bounds import portion
from ...core.view import DueLeg
from .operations import Operations, Order

HELD: Final = State.HELD  # an enum's members are slow to look up
NO_POOL: Final = Pool("", "", 0)  # stands for a pool that does not exist


class Tables:
    """What a SQL engine would keep in tables and their indexes."""

    def __init__(self) -> None:
        self.pools: dict[Key, Pool] = {}
        self.holds: dict[Key, StoredHold] = {}
        self.get_hold = self.holds.get
        self.operations = Operations()
        self.records: dict[RecordKey, Record] = {}
        self.fence_floors: dict[str, int] = {}  # tenant → the highest fence of its removed pools
        self.last_slot: Slot = 0
        self.legs: dict[Key, dict[str, int]] = {}  # pool → hold id → outstanding units
        self.deadlines: dict[Key, Order] = {}  # pool → its holds with a deadline and outstanding legs, by deadline
        self.held = 0  # holds in state held, with and without a deadline
        self.live = Order()  # holds in state held with a deadline, by deadline
        self.leftover = (
            Order()
        )  # expired holds with outstanding legs (not every pool has been touched since), by deadline
        self.kept = {
            rule: Order() for rule in Keeping
        }  # all other holds, by the rule that keeps them and since when it applies
        self.idle: list[Key] = []  # on-demand pools without label and window that are empty
        self.resting = Order()  # empty on-demand pools with a label, by their last slot
        self.closing = Order()  # pools with a window, by its end
        self.linked: dict[Key, list[str]] = {}  # (tenant, entity) → the labelled pools linked to the entity, by id

    # Pools and records

    def put_pool(self, key: Key, pool: Pool | None) -> None:
        """Write or remove a pool."""
        before = self.pools.get(key)
        if pool is None:
            del self.pools[key]
        else:
            self.pools[key] = pool
            self.last_slot = max(self.last_slot, pool.slot)
        was, now = before or NO_POOL, pool or NO_POOL
        if was.on_demand or now.on_demand:
            self._index_idle(key, was, now)
        if was.entity != now.entity:
            self._index_entity(key, was.entity, now.entity)

    def _index_idle(self, key: Key, was: Pool, now: Pool) -> None:
        if was.closes != now.closes:
            if was.closes is not None:
                self.closing.take_out(was.closes, key)
            if now.closes is not None:
                self.closing.file(now.closes, key)
        rested, rests = was.idle_from(0), now.idle_from(0)
        if (rested, was.label, was.closes) == (rests, now.label, now.closes):
            return
        if rested is not None and was.closes is None:
            if was.label is None:
                at = bisect_left(self.idle, key)
                assert self.idle[at] == key, "an index has lost one of its rows"
                del self.idle[at]
            else:
                self.resting.take_out(rested, key)
        if rests is not None and now.closes is None:
            if now.label is None:
                insort(self.idle, key)
            else:
                self.resting.file(rests, key)

    def _index_entity(self, key: Key, was: str | None, now: str | None) -> None:
        tenant, pool = key
        if was is not None:
            linked = self.linked[tenant, was]
            del linked[bisect_left(linked, pool)]
            if not linked:
                del self.linked[tenant, was]
        if now is not None:
            insort(self.linked.setdefault((tenant, now), []), pool)

    def put_record(self, key: RecordKey, record: Record | None) -> None:
        """Write or remove a record."""
        if record is None:
            self.records.pop(key, None)
        else:
            self.records[key] = record

    # Holds and their legs

    def put_hold(self, hold: StoredHold) -> None:
        """Write a hold, and bring the indexes of its outstanding legs up to date."""
        key = (hold.tenant, hold.id)
        before = self.holds.get(key)
        if before is not None:
            index, slot = self._index_of(before)
            if slot is not None:
                index.take_out(slot, key)
            self.held -= before.state is HELD
        self.holds[key] = hold
        self.held += hold.state is HELD
        index, slot = self._index_of(hold)
        if slot is not None:
            index.file(slot, key)
        if before is None:
            self._put_legs(key, hold)
        elif before.legs is not hold.legs or before.deadline != hold.deadline:
            self._drop_legs(key, before)
            self._put_legs(key, hold)

    def drop_hold(self, key: Key) -> None:
        """Remove a hold that has ended."""
        hold = self.holds.pop(key)
        index, slot = self._index_of(hold)
        assert slot is not None, "only a hold that has ended is removed"
        index.take_out(slot, key)

    def _index_of(self, hold: StoredHold) -> tuple[Order, Slot | None]:
        if hold.state is HELD:
            return self.live, hold.deadline
        kept = keeping(hold)
        return (self.leftover, hold.deadline) if kept is None else (self.kept[kept[0]], kept[1])

    def _put_legs(self, key: Key, hold: StoredHold) -> None:
        for leg in hold.legs:
            if leg.held:
                pool = (hold.tenant, leg.pool)
                units = self.legs.get(pool)
                if units is None:
                    units = self.legs[pool] = {}
                units[hold.id] = leg.held
                if hold.deadline is not None:
                    order = self.deadlines.get(pool)
                    if order is None:
                        order = self.deadlines[pool] = Order()
                    order.file(hold.deadline, key)

    def _drop_legs(self, key: Key, hold: StoredHold) -> None:
        for leg in hold.legs:
            if leg.held:
                pool = (hold.tenant, leg.pool)
                units = self.legs[pool]
                del units[hold.id]
                if not units:
                    del self.legs[pool]
                if hold.deadline is not None:
                    order = self.deadlines[pool]
                    order.take_out(hold.deadline, key)
                    if not order:
                        del self.deadlines[pool]

    # What is due

    def any_due(self, until: Slot) -> bool:
        """Whether any leg anywhere has a deadline up to `until`."""
        return self.live.any(until) or self.leftover.any(until)

    def due(self, pool: Key, until: Slot, limit: int | None = None) -> list[DueLeg]:
        """The outstanding legs of a pool with a deadline up to `until`, earliest first."""
        order = self.deadlines.get(pool)
        if order is None or not order.any(until):
            return []
        count = order.count(until)
        return [(slot, key[1]) for slot, key in order.first(count if limit is None else min(limit, count))]

    def live_at(self, now: Slot) -> int:
        """The number of holds in state held whose deadline has not come."""
        return self.held - self.live.count(now)

    def due_holds(self, now: Slot, limit: int, max_legs: int) -> tuple[list[Key], bool]:
        """Holds with due legs on any pool, in order of (deadline, id), and whether there are more than the limits allow."""
        due = (index.first(index.count(now)) for index in (self.live, self.leftover))
        found = merge(*due, key=lambda due: (due[0], due[1][::-1]))
        legs = ((key, sum(1 for leg in self.holds[key].legs if leg.held)) for _, key in found)
        return portion(legs, limit, max_legs)

    # What may be removed

    def idle_pools(self, limit: int, now: Slot, retention: Slot | None) -> list[Key]:
        """On-demand pools that a sweep may remove, in order of (since when, id). Without a retention, a pool with a label may be
        removed as soon as it is empty."""
        found: list[tuple[Slot, Key]] = [(0, key) for key in self.idle[:limit]]
        rested = len(self.resting) if retention is None else self.resting.count(now - retention)
        found += [(slot + (retention or 0), key) for slot, key in self.resting.first(min(limit, rested))]
        over = self.closing.first(self.closing.count(now))
        found += islice(((slot, key) for slot, key in over if self.pools[key].idle_from(0) is not None), limit)
        return [key for _, key in sorted(found)[:limit]]

    def forget_holds(self, count: int) -> list[Key]:
        """Remove up to `count` ended holds of which nothing is consumed, oldest first; returns their keys."""
        gone = self.kept[Keeping.ENDED].drop(count)
        for key in gone:
            del self.holds[key]
        return gone

    def ended_until(self, slot: Slot) -> int:
        """How many ended holds of which nothing is consumed had their last change up to `slot`."""
        return self.kept[Keeping.ENDED].count(slot)

    @property
    def ended(self) -> int:
        """How many holds have ended, with nothing outstanding."""
        return sum([len(order) for order in self.kept.values()])

    @property
    def consumed(self) -> int:
        """How many ended holds have units that are consumed."""
        return self.ended - len(self.kept[Keeping.ENDED])

    def retiring(self, limit: int, now: Slot | None, limits: Limits) -> list[Key]:
        """Holds whose units are consumed and whose retention is over, in order of (since when, id). If `now` is None: whether or not it
        is over, those whose retention ends first."""
        found: list[tuple[Slot, str, Key]] = []
        for rule in (Keeping.WINDOW, Keeping.CONSUMED):
            order, span = self.kept[rule], kept_for(rule, limits)
            count = len(order) if now is None else order.count(now - span)
            found += [(slot + span, key[1], key) for slot, key in order.first(min(limit, count))]
        return [key for *_, key in sorted(found)[:limit]]
