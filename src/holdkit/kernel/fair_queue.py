"""The queue of a group commit: tenants take turns, so that a tenant that sends all it can delays the others by a share only.

Theory of operation
-------------------

Each tenant has a queue of its own, in order of arrival. A batch is filled by deficit round robin: it visits every tenant once, from
where the last batch stopped. At each visit a tenant is given `QUANTUM` of credit, which it cannot save, and its calls are taken while
it has any; a call costs its commands and the legs that they name. The call that uses the credit up may cost more than is left: then the
tenant is in debt, and is passed over until its visits have paid for it, `MOST_VISITS` at most. What a call has cost beyond that, in legs of the holds that it
names, is known when it is answered, and charged then.

*Invariants*

 1. The calls of a tenant are taken in order. (The next leader of threads may come from near the head, see `leader_queue`.)
 2. Nobody waits for ever: a tenant whose next call does not fit into a batch is the first of the next one; and if all are in debt,
    further visits pay for it at once. So a tenant that is alone never waits for credit.
 3. A call that costs more than `QUANTUM` begins a batch, while others are queued: it is not added to one with calls of other tenants,
    which would wait for it. Those that are taken after it wait no longer than they would for the batch to end.
 4. Calls that were sent and have no answer stand before all others, and are taken first.
 5. A tenant that is alone may have `bound` commands here. With others each may have less, so that there is always room for one that
    comes: as many as are free of twice the bound. All together have fewer than twice the bound.

*Interrupts.* A thread may be interrupted at any bytecode. A call is in the queue exactly if it is in `_first` or in the `calls` of an
element of `_order`; each is one step. A tenant is found by `_by_tenant`, which may lack an element of `_order` after an interrupt: then
a new one is added, and the old one is dropped when it is empty. An element leaves `_by_tenant` before it leaves `_order`, so no call is
added to one that has left. Credits and counts may be wrong afterwards, by the call that was interrupted; they begin anew when the
tenant has no calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, Final

from ..core.bounds import MOST_LEGS
from ..core.commands import Group
from ..core.outcomes import Receipt
from ..errors import Overloaded
from .queued_calls import QueuedCall

MAX_COMMANDS: Final = 1_000
"""Commands of one batch: bounds how long the write lock is held."""
MAX_LEGS: Final = MOST_LEGS
"""Legs of one batch, as far as its commands name them: the same bound, for holds over many pools."""
QUANTUM: Final = 128
"""What a tenant may have of each batch while others are queued: 64 commands with one leg each."""


MOST_VISITS: Final = 16
"""The most visits that a debt takes to be paid: a call that touches very many legs does not shut its tenant out."""


class TenantCalls:
    """The queued calls of one tenant."""

    __slots__ = ("calls", "credit", "tenant", "waiting")

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.calls: deque[Any] = deque()
        self.credit = 0
        self.waiting = 0
        """Commands of the calls."""


class Room:
    """What a batch has left of its bounds."""

    __slots__ = ("commands", "legs")

    def __init__(self, batch: Sequence[QueuedCall], most: int) -> None:
        self.commands = most - sum([call.size for call in batch])
        self.legs = MAX_LEGS - sum([call.legs for call in batch])

    def fill(
        self,
        calls: deque[Any],
        batch: list[Any],
        fits: Callable[[Group], bool] | None,
        latest: float,
        credit: float = inf,
    ) -> int:
        """Move calls into the batch, in order, up to its bounds, to the end of the credit, or to the first call that does not fit or
        whose deadline is after `latest`; returns what they cost. An empty batch gets at least one call.

        Even if it is interrupted, each call is afterwards either in the batch or in the queue.
        """
        cost = 0
        try:
            while calls and cost < credit:
                first = calls[0]
                if batch and (first.size > self.commands or first.legs > self.legs):
                    break
                if first.until > latest or (fits is not None and not fits(first.group)):
                    break
                if first.cost > QUANTUM and batch and credit != inf:
                    break
                self.commands -= first.size
                self.legs -= first.legs
                cost += first.cost
                batch.append(first)  # before it leaves the queue: an interrupt in between loses nobody
                calls.popleft()
        finally:
            if calls and batch and calls[0] is batch[-1]:
                calls.popleft()
        return cost

    def has(self, call: QueuedCall) -> bool:
        """Whether the call fits."""
        return call.size <= self.commands and call.legs <= self.legs


class FairQueue:
    """Calls by tenant, and whose turn it is."""

    def __init__(self) -> None:
        self._first: deque[Any] = deque()
        """Calls that were sent and have no answer."""
        self._order: deque[TenantCalls] = deque()
        """The first one has the next turn."""
        self._by_tenant: dict[str, TenantCalls] = {}
        self._begins: TenantCalls | None = None
        """The tenant whose next call must begin a batch, and begins the next one."""

    def __bool__(self) -> bool:
        if self._first:
            return True
        for one in self._order:  # noqa: SIM110 - `any` with a generator takes three times as long
            if one.calls:
                return True
        return False

    def __len__(self) -> int:
        return len(self._first) + sum([len(one.calls) for one in [*self._order]])

    def __iter__(self) -> Iterator[Any]:
        yield from self._first
        for one in [*self._order]:
            yield from one.calls

    def waiting(self, tenant: str) -> int:
        """The commands of a tenant that are queued."""
        one = self._by_tenant.get(tenant)
        return 0 if one is None else one.waiting

    def append(self, call: QueuedCall) -> None:
        """Queue a call behind those of its tenant."""
        one = self._by_tenant.get(call.tenant)
        if one is None:
            one = self._add(call.tenant, call)
        else:
            one.calls.append(call)
        one.waiting += call.size

    def put_back(self, calls: Sequence[QueuedCall]) -> None:
        """Queue calls again that were taken, before all others of their tenants, in order. The tenant of the first one begins the next
        batch: the engine may have found no room for its call behind those of others, and would find none again."""
        for call in reversed(calls):
            if call.sent:
                self._first.appendleft(call)
                continue
            one = self._by_tenant.get(call.tenant)
            if one is None:
                one = self._add(call.tenant, call)
            else:
                one.calls.appendleft(call)
            one.waiting += call.size
            one.credit = min(QUANTUM, one.credit + call.cost)
            self._begins = one

    def _add(self, tenant: str, call: QueuedCall) -> TenantCalls:
        one = TenantCalls(tenant)
        one.calls.append(call)
        self._order.append(one)
        self._by_tenant[tenant] = one
        return one

    def remove(self, call: QueuedCall) -> bool:
        """Take a call out; says whether it was there."""
        known = self._by_tenant.get(call.tenant)
        if known is not None and _removed(known, call):
            return True
        if call in self._first:
            self._first.remove(call)
            return True
        return any(_removed(one, call) for one in self._order)

    def take(
        self, batch: list[Any], most: int, fits: Callable[[Group], bool] | None = None, latest: float = inf
    ) -> None:
        """Move calls into the batch: first those that were sent, then the tenants in turn."""
        room = Room(batch, most)
        if self._first:
            room.fill(self._first, batch, fits, latest)
        if len(self._order) == 1:
            one, before = self._order[0], room.commands
            cost = room.fill(one.calls, batch, fits, latest)
            one.credit = max(QUANTUM - cost, -MOST_VISITS * QUANTUM)  # what it had before, nobody has missed
            one.waiting = one.waiting - before + room.commands if one.calls else 0
        elif self._order:
            self._take_turns(room, batch, fits, latest)

    def _take_turns(self, room: Room, batch: list[Any], fits: Callable[[Group], bool] | None, latest: float) -> None:
        """Visit every tenant once; again if nothing was taken because all are in debt."""
        order = self._order
        self._to_front()
        while True:
            poor = False
            for _ in range(len(order)):
                one = order[0]
                one.credit = min(QUANTUM, one.credit + QUANTUM)
                if not one.calls:
                    self._pass_over(one)
                    continue
                if one.credit > 0:
                    before = room.commands
                    cost = room.fill(one.calls, batch, fits, latest, one.credit)
                    one.credit = max(one.credit - cost, -MOST_VISITS * QUANTUM)
                    one.waiting = one.waiting - before + room.commands if one.calls else 0
                    if one.calls and one.credit > 0 and one.calls[0].until <= latest:
                        if one.calls[0].cost > QUANTUM:
                            self._begins = self._begins or one
                        elif not room.has(one.calls[0]):
                            return  # it is the first of the next batch
                else:
                    poor = True
                order.rotate(-1)
            if batch or not poor:
                return

    def _pass_over(self, one: TenantCalls) -> None:
        """A tenant without calls: forget it when it has no debt."""
        one.waiting = 0
        if one.credit < QUANTUM:
            self._order.rotate(-1)
            return
        if self._by_tenant.get(one.tenant) is one:
            del self._by_tenant[one.tenant]
        self._order.popleft()

    def _to_front(self) -> None:
        """Bring the tenant to the front whose call begins the next batch."""
        begins, self._begins = self._begins, None
        if begins is not None and begins.calls and begins in self._order:
            self._order.rotate(-self._order.index(begins))

    def turn(self) -> deque[Any]:
        """The calls of which the first is to lead the next batch. The queue must not be empty."""
        if self._first:
            return self._first
        self._to_front()
        least = inf
        for _ in range(len(self._order)):
            one = self._order[0]
            if one.calls:
                if one.credit + QUANTUM > 0:
                    return one.calls
                least = min(least, -one.credit)
            self._order.rotate(-1)
        for one in self._order:  # all are in debt: it is paid as if as many batches had passed
            one.credit = min(QUANTUM, one.credit + int(least))
        return self.turn()

    def spend(self, call: QueuedCall) -> None:
        """Charge a tenant for the call that leads a batch."""
        one = self._by_tenant.get(call.tenant)
        if one is not None:
            one.credit -= call.cost

    def charge(self, batch: Sequence[QueuedCall]) -> None:
        """Charge tenants for the legs of holds that their calls have named, if others are queued."""
        if len(self._order) < 2:
            return
        for call in batch:
            one = self._by_tenant.get(call.tenant)
            if one is not None and call.outcomes is not None:
                legs = [len(done.hold.legs) for done in call.outcomes if isinstance(done, Receipt) and done.hold]
                more = max(0, sum(legs) - call.legs - call.size)
                one.credit = max(one.credit - more, -MOST_VISITS * QUANTUM)


def _removed(one: TenantCalls, call: QueuedCall) -> bool:
    try:
        one.calls.remove(call)
    except ValueError:
        return False
    one.waiting = one.waiting - call.size if one.calls else 0
    return True


class BoundedQueue:
    """A fair queue with a bound: how many commands of a tenant may wait here while it is alone."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self._queue = FairQueue()
        self._queued = 0
        """Commands of the calls in the queue."""

    def _enqueue(self, call: QueuedCall) -> None:
        size, queued = call.size, self._queued
        # The second condition follows from the third, and spares it in the usual case: a tenant has at most what is queued.
        if (
            queued
            and queued + size > self.bound
            and self._queue.waiting(call.tenant) + queued + 2 * size > 2 * self.bound
        ):
            raise self._full(call)
        self._queue.append(call)
        self._queued = queued + size

    def _full(self, call: QueuedCall) -> Overloaded:
        ours = self._queue.waiting(call.tenant)
        whose = "" if ours == self._queued else f", {ours} of them of this tenant"
        return Overloaded(f"{self._queued} commands are waiting already{whose} (max_queue): try again a little later")

    def _requeue(self, calls: Sequence[QueuedCall]) -> None:
        """Put calls back at the head, in order. The bound does not apply: they were in the queue before."""
        self._queue.put_back(calls)
        self._queued += sum([call.size for call in calls])

    def _take(
        self,
        batch: list[Any],
        most: int = MAX_COMMANDS,
        fits: Callable[[Group], bool] | None = None,
        latest: float = inf,
    ) -> None:
        """Move calls from the queue into the batch, as the queue's rules say."""
        before = len(batch)
        try:
            self._queue.take(batch, most, fits, latest)
        finally:
            self._queued -= sum([call.size for call in batch[before:]])

    def withdraw(self, call: QueuedCall) -> bool:
        """Take a call out of the queue; says whether it was there."""
        found = self._queue.remove(call)
        if found:
            self._queued -= call.size
        return found
