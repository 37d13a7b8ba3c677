"""The rows of the memory engine, and the sorted indexes over them, so that no call scans a table.

Decides nothing: the core says what is due, live or retired; the indexes here only find such rows.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Final

from ...core.bounds import Limits
from ...core.ladders.lines import SKIPPED
from ...core.ladders.retiring import Keeping, keeping, kept_for
from ...core.model import HELD, LIVE, Key, Pool, Record, RecordKey, Slot, StoredHold, filed_anew
from ...core.outstanding import OpenLeg, Tally, TallyKey
from ...core.table_bounds import portion
from ...core.view import DueLeg, FrontOfLine
from .operations import Operations, Order

NO_POOL: Final = Pool("", "", 0)  # stands for a pool that does not exist
OPEN_LEGS: Final = tuple(map(OpenLeg, range(100)))
"""The rows of most legs, shared: a hold has few units."""


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
        self.legs: dict[Key, dict[str, OpenLeg]] = {}  # pool → hold id → what is outstanding
        self.lines: dict[Key, list[tuple[int, str]]] = {}  # pool → numbers and ids of those who wait there, in order
        self.tallies: dict[TallyKey, Tally] = {}
        self.accounts: dict[Key, list[str]] = {}  # (tenant, account) → the pools of its tallies, by id
        self.deadlines: dict[Key, Order] = {}  # pool → its holds with a deadline and outstanding legs, by deadline
        self.held = 0  # holds that have not ended, with and without a deadline
        self.live = Order()  # holds that have not ended, with a deadline, by deadline
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

    def put_hold(self, key: Key, hold: StoredHold) -> None:
        """Write a hold, and bring the indexes of its outstanding legs up to date."""
        before = self.holds.get(key)
        if before is None and hold.state is HELD and hold.account is None and not hold.above:
            self._put_new(key, hold)  # by far the most
            return
        if before is not None:
            index, slot = self._index_of(before)
            if slot is not None:
                index.take_out(slot, key)
            self.held -= before.state in LIVE
        self.holds[key] = hold
        self.held += hold.state in LIVE
        index, slot = self._index_of(hold)
        if slot is not None:
            index.file(slot, key)
        if before is None:
            self._put_legs(key, hold)
        elif before.legs is not hold.legs or filed_anew(before, hold):
            self._drop_legs(key, before)
            self._put_legs(key, hold)

    def _put_new(self, key: Key, hold: StoredHold) -> None:
        """Store a hold that is new, and has units on the pools of its legs only."""
        deadline = hold.deadline
        self.holds[key] = hold
        self.held += 1
        if deadline is not None:
            self.live.file(deadline, key)
        for leg in hold.legs:
            if not leg.held:
                continue  # released or confirmed in the batch that placed it
            pool = (hold.tenant, leg.pool)
            legs = self.legs.get(pool)
            if legs is None:
                legs = self.legs[pool] = {}
            legs[hold.id] = OPEN_LEGS[leg.held] if leg.held < len(OPEN_LEGS) else OpenLeg(leg.held)
            if deadline is not None:
                order = self.deadlines.get(pool)
                if order is None:
                    order = self.deadlines[pool] = Order()
                order.file(deadline, key)

    def drop_hold(self, key: Key) -> None:
        """Remove a hold that has ended."""
        hold = self.holds.pop(key)
        index, slot = self._index_of(hold)
        assert slot is not None, "only a hold that has ended is removed"
        index.take_out(slot, key)

    def _index_of(self, hold: StoredHold) -> tuple[Order, Slot | None]:
        if hold.state in LIVE:
            return self.live, hold.deadline
        kept = keeping(hold)
        return (self.leftover, hold.deadline) if kept is None else (self.kept[kept[0]], kept[1])

    def _put_legs(self, key: Key, hold: StoredHold) -> None:
        for name, leg in hold.open_legs():
            pool = (hold.tenant, name)
            legs = self.legs.get(pool)
            if legs is None:
                legs = self.legs[pool] = {}
            legs[hold.id] = leg
            if leg.number:
                insort(self.lines.setdefault(pool, []), (leg.number, hold.id))
            if hold.deadline is not None:
                order = self.deadlines.get(pool)
                if order is None:
                    order = self.deadlines[pool] = Order()
                order.file(hold.deadline, key)

    def _drop_legs(self, key: Key, hold: StoredHold) -> None:
        for name, leg in hold.open_legs():
            pool = (hold.tenant, name)
            legs = self.legs[pool]
            del legs[hold.id]
            if not legs:
                del self.legs[pool]
            if leg.number:
                self._leave(pool, (leg.number, hold.id))
            if hold.deadline is not None:
                order = self.deadlines[pool]
                order.take_out(hold.deadline, key)
                if not order:
                    del self.deadlines[pool]

    def _leave(self, pool: Key, place: tuple[int, str]) -> None:
        line = self.lines[pool]
        at = bisect_left(line, place)
        assert line[at] == place, "a line has lost one of its places"
        del line[at]
        if not line:
            del self.lines[pool]

    # Lines and accounts

    def front(self, pool: Key, limit: int, most: int) -> FrontOfLine:
        """Return the first `limit` holds of a line that ask for at most `most` units."""
        found = list(islice(self.asking(pool, most), limit + 1))
        return FrontOfLine(found[:limit], len(found) > limit)

    def asking(self, pool: Key, most: int) -> Iterator[str]:
        """Yield the holds that wait at a pool for at most `most` units, in order."""
        legs = self.legs.get(pool, {})
        return (hold for _, hold in self.lines.get(pool, ()) if legs[hold].waiting <= most)

    def waiting_pools(self, limit: int) -> list[Key]:
        """Return the pools whose units could serve their line, in order of id."""
        return list(islice(filter(self._feedable, sorted(self.lines)), limit))

    def _feedable(self, key: Key) -> bool:
        pool, legs = self.pools[key], self.legs[key]
        front = islice(self.asking(key, pool.total), 1 if pool.line == "strict" else SKIPPED)
        return not pool.archived and any(legs[hold].waiting <= pool.available for hold in front)

    def put_tally(self, key: TallyKey, tally: Tally | None) -> None:
        """Write or remove a tally."""
        tenant, pool, account = key
        pools = self.accounts.setdefault((tenant, account), [])
        at = bisect_left(pools, pool)
        if tally is not None:
            if key not in self.tallies:
                pools.insert(at, pool)
            self.tallies[key] = tally
        elif self.tallies.pop(key, None) is not None:
            del pools[at]
        if not pools:
            del self.accounts[tenant, account]

    # What is due

    def any_due(self, until: Slot) -> bool:
        """Return whether any leg anywhere has a deadline up to `until`."""
        return self.live.any(until) or self.leftover.any(until)

    def due(self, pool: Key, until: Slot, limit: int | None = None) -> list[DueLeg]:
        """Return the outstanding legs of a pool with a deadline up to `until`, earliest first."""
        order = self.deadlines.get(pool)
        if order is None or not order.any(until):
            return []
        count = order.count(until)
        return [(slot, key[1]) for slot, key in order.first(count if limit is None else min(limit, count))]

    def live_at(self, now: Slot) -> int:
        """Return the number of holds that have not ended and whose deadline has not come."""
        return self.held - self.live.count(now)

    def due_holds(self, now: Slot, limit: int, max_legs: int) -> tuple[list[Key], bool]:
        """Return holds with due legs on any pool, in order of (deadline, id), and whether there are more than the limits allow."""
        due = (index.first(index.count(now)) for index in (self.live, self.leftover))
        found = merge(*due, key=lambda due: (due[0], due[1][::-1]))
        legs = ((key, len(self.holds[key].open_legs())) for _, key in found)
        return portion(legs, limit, max_legs)

    # What may be removed

    def idle_pools(self, limit: int, now: Slot, retention: Slot | None) -> list[Key]:
        """Return on-demand pools that a sweep may remove, in order of (since when, id). Without a retention, a pool with a label may be
        removed as soon as it is empty."""
        found: list[tuple[Slot, Key]] = [(0, key) for key in self.idle[:limit]]
        rested = len(self.resting) if retention is None else self.resting.count(now - retention)
        found += [(slot + (retention or 0), key) for slot, key in self.resting.first(min(limit, rested))]
        over = self.closing.first(self.closing.count(now))
        found += islice(((slot, key) for slot, key in over if self.pools[key].idle_from(0) is not None), limit)
        return [key for _, key in sorted(found)[:limit]]

    def forget_holds(self, count: int) -> list[Key]:
        """Remove up to `count` ended holds without consumed units, oldest first, and return their keys."""
        gone = self.kept[Keeping.ENDED].drop(count)
        for key in gone:
            del self.holds[key]
        return gone

    def ended_until(self, slot: Slot) -> int:
        """Count the ended holds without consumed units that changed last at or before `slot`."""
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
        """Return holds whose units are consumed and whose retention is over, in order of (since when, id). If `now` is None: whether or
        not it is over, those whose retention ends first."""
        found: list[tuple[Slot, str, Key]] = []
        for rule in (Keeping.WINDOW, Keeping.CONSUMED):
            order, span = self.kept[rule], kept_for(rule, limits)
            count = len(order) if now is None else order.count(now - span)
            found += [(slot + span, key[1], key) for slot, key in order.first(min(limit, count))]
        return [key for *_, key in sorted(found)[:limit]]
