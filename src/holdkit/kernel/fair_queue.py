"""The queue of a group commit: tenants take turns, so that a tenant that sends all it can delays the others by a share only.

A group commit for threads (`leader_queue`) and one for tasks (`batch_worker`) each own such queues, and take their batches from them.

Theory of operation
-------------------

Each tenant has a queue of its own, in order of arrival. A batch is filled by deficit round robin: it visits every tenant once, from
where the last batch stopped. At each visit a tenant gets `QUANTUM` of credit, which it cannot save, and its calls are taken while
it has any; a call costs its commands and the legs that they name. The call that uses up the credit may cost more than the tenant has: then
the tenant is in debt, and is passed over until its visits have paid the debt, `MAX_DEBT_VISITS` at most. The legs of the holds that a call
names are known when it is answered, and are charged then.

*Invariants*

 1. The calls of a tenant are taken in order. (The next leader of threads may come from near the head, see `leader_queue`.)
 2. No call waits for ever: a tenant whose next call does not fit into a batch is the first of the next one; and if all are in debt,
    further visits pay for it at once. So a tenant that is alone never waits for credit.
 3. A call that costs more than `QUANTUM` begins a batch, while other tenants are queued: it is not added to one with their calls,
    which would wait for it. Calls that are taken after it wait only until that batch ends, as they would without it.
 4. Calls that were sent and have no answer stand before all others, and are taken first.
 5. A tenant that is alone may queue `bound` commands. With others each may queue what is free of twice the bound, so that a tenant that
    comes later always finds room. All tenants together have fewer than twice the bound.

*Interrupts.* A thread may be interrupted at any bytecode. A call is in the queue exactly if it is in `_first` or in the `calls` of an
element of `_order`; each is one step. A tenant is found by `_by_tenant`, which may lack an element of `_order` after an interrupt: then
a new one is added, and the old one is dropped when it is empty. An element leaves `_by_tenant` before it leaves `_order`, so no call is
added to one that has left. Credits and counts may be wrong afterwards, by the call that was interrupted. A tenant's begin anew when it
has no calls; `leader_queue` sets `commands` to 0 when it finds the queue empty.
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
from .batches import QueuedCall

MAX_COMMANDS: Final = 1_000
"""Commands of one batch: bounds how long the write lock is held."""
MAX_LEGS: Final = MOST_LEGS
"""Legs that the commands of one batch name: the same bound, for holds over many pools."""
QUANTUM: Final = 128
"""A tenant's share of each batch while other tenants are queued: 64 commands with one leg each."""
MAX_DEBT_VISITS: Final = 16
"""Visits after which any debt is paid: a call that touches very many legs does not shut its tenant out."""


class TenantQueue:
    """The queued calls of one tenant."""

    __slots__ = ("calls", "credit", "name", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: deque[Any] = deque()
        self.credit = 0
        self.waiting = 0
        """Commands of the calls."""

    def remove(self, call: QueuedCall) -> bool:
        """Take a call out; says whether it was here."""
        try:
            self.calls.remove(call)
        except ValueError:
            return False
        self.waiting = self.waiting - call.size if self.calls else 0
        return True

    def spend(self, cost: int) -> None:
        """Lower the credit; the debt is bounded."""
        self.credit = max(self.credit - cost, -MAX_DEBT_VISITS * QUANTUM)


class Room:
    """The room that a batch has left within its bounds."""

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
        """Move calls into the batch, in order, and return their cost.

        It ends at the batch's bounds, at the end of the credit, or before the first call that does not pass `fits` or whose deadline is
        after `latest`. An empty batch gets at least one call. Even if it is interrupted, each call is afterwards either in the
        batch or in the queue.
        """
        cost = 0
        try:
            while calls and cost < credit:
                call = calls[0]
                if batch and (call.size > self.commands or call.legs > self.legs):
                    break
                if call.until > latest or (fits is not None and not fits(call.group)):
                    break
                if call.cost > QUANTUM and batch and credit != inf:
                    break
                self.commands -= call.size
                self.legs -= call.legs
                cost += call.cost
                batch.append(call)  # before it leaves the queue: an interrupt in between loses no call
                calls.popleft()
        finally:
            if calls and batch and calls[0] is batch[-1]:
                calls.popleft()
        return cost

    def has(self, call: QueuedCall) -> bool:
        """Return whether the call fits."""
        return call.size <= self.commands and call.legs <= self.legs


class FairQueue:
    """Calls by tenant, and which tenant has the next turn."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        """How many commands a tenant may queue while it is alone."""
        self.commands = 0
        """Commands of the calls in the queue."""
        self._first: deque[Any] = deque()
        """Calls that were sent and have no answer."""
        self._order: deque[TenantQueue] = deque()
        """The first one has the next turn."""
        self._by_tenant: dict[str, TenantQueue] = {}
        self._begins: TenantQueue | None = None
        """The tenant whose next call must begin a batch, and begins the next one."""

    def __bool__(self) -> bool:
        if self._first:
            return True
        for tenant in self._order:  # noqa: SIM110 - `any` with a generator takes three times as long
            if tenant.calls:
                return True
        return False

    def __len__(self) -> int:
        return len(self._first) + sum([len(tenant.calls) for tenant in [*self._order]])

    def __iter__(self) -> Iterator[Any]:
        yield from self._first
        for tenant in [*self._order]:
            yield from tenant.calls

    def waiting(self, name: str) -> int:
        """Return how many commands of a tenant are queued."""
        tenant = self._by_tenant.get(name)
        return 0 if tenant is None else tenant.waiting

    def add(self, call: QueuedCall) -> None:
        """Queue a call behind those of its tenant; raise `Overloaded` if there is no room."""
        size, queued = call.size, self.commands
        # The second condition follows from the third, and spares it in the usual case: a tenant has at most what is queued.
        if queued and queued + size > self.bound and self.waiting(call.tenant) + queued + 2 * size > 2 * self.bound:
            raise self._full(call)
        self.append(call)

    def append(self, call: QueuedCall) -> None:
        """Queue a call behind those of its tenant, even if there is no room."""
        tenant = self._by_tenant.get(call.tenant)
        if tenant is None:
            tenant = self._add_tenant(call)
        else:
            tenant.calls.append(call)
        tenant.waiting += call.size
        self.commands += call.size

    def _full(self, call: QueuedCall) -> Overloaded:
        waiting = self.waiting(call.tenant)
        whose = "" if waiting == self.commands else f", {waiting} of them of this tenant"
        return Overloaded(f"{self.commands} commands are waiting already{whose} (max_queue): try again a little later")

    def put_back(self, calls: Sequence[QueuedCall]) -> None:
        """Queue calls again that were taken, before all others of their tenants, in order. The bound does not apply.

        The tenant of the first call begins the next batch: the engine may have found no room for this call behind those of others,
        and would find none again.
        """
        for call in reversed(calls):
            if call.sent:
                self._first.appendleft(call)
            else:
                self._put_before_its_tenant(call)
            self.commands += call.size

    def _put_before_its_tenant(self, call: QueuedCall) -> None:
        tenant = self._by_tenant.get(call.tenant)
        if tenant is None:
            tenant = self._add_tenant(call)
        else:
            tenant.calls.appendleft(call)
        tenant.waiting += call.size
        tenant.credit = min(QUANTUM, tenant.credit + call.cost)
        self._begins = tenant

    def _add_tenant(self, call: QueuedCall) -> TenantQueue:
        tenant = TenantQueue(call.tenant)
        tenant.calls.append(call)
        self._order.append(tenant)
        self._by_tenant[call.tenant] = tenant
        return tenant

    def withdraw(self, call: QueuedCall) -> bool:
        """Take a call out; says whether it was here."""
        tenant = self._by_tenant.get(call.tenant)
        if tenant is None or not tenant.remove(call):
            if call in self._first:
                self._first.remove(call)
            elif not any(tenant.remove(call) for tenant in self._order):
                return False
        self.commands -= call.size
        return True

    def take(
        self,
        batch: list[Any],
        most: int = MAX_COMMANDS,
        fits: Callable[[Group], bool] | None = None,
        latest: float = inf,
    ) -> None:
        """Move calls into the batch: first those that were sent, then those of the tenants in turn.

        The batch gets at most `most` commands, and only calls that pass `fits` and whose deadline is not after `latest`.
        """
        before = len(batch)
        try:
            self._fill(Room(batch, most), batch, fits, latest)
        finally:
            self.commands -= sum([call.size for call in batch[before:]])

    def _fill(self, room: Room, batch: list[Any], fits: Callable[[Group], bool] | None, latest: float) -> None:
        if self._first:
            room.fill(self._first, batch, fits, latest)
        if len(self._order) == 1:
            tenant, commands = self._order[0], room.commands
            cost = room.fill(tenant.calls, batch, fits, latest)
            tenant.credit = QUANTUM  # whatever its debt was: no other tenant has missed anything
            tenant.spend(cost)
            tenant.waiting = tenant.waiting - commands + room.commands if tenant.calls else 0
        elif self._order:
            self._take_turns(room, batch, fits, latest)

    def _take_turns(self, room: Room, batch: list[Any], fits: Callable[[Group], bool] | None, latest: float) -> None:
        """Visit every tenant once; visit them again if no call was taken because all are in debt."""
        order = self._order
        self._to_front()
        while True:
            has_debtor = False
            for _ in range(len(order)):
                tenant = order[0]
                tenant.credit = min(QUANTUM, tenant.credit + QUANTUM)
                if not tenant.calls:
                    self._pass_over(tenant)
                    continue
                if tenant.credit > 0:
                    commands = room.commands
                    tenant.spend(room.fill(tenant.calls, batch, fits, latest, tenant.credit))
                    tenant.waiting = tenant.waiting - commands + room.commands if tenant.calls else 0
                    if tenant.calls and tenant.credit > 0 and tenant.calls[0].until <= latest:
                        if tenant.calls[0].cost > QUANTUM:
                            self._begins = self._begins or tenant
                        elif not room.has(tenant.calls[0]):
                            return  # it is the first of the next batch
                else:
                    has_debtor = True
                order.rotate(-1)
            if batch or not has_debtor:
                return

    def _pass_over(self, tenant: TenantQueue) -> None:
        """Pass over a tenant without calls, and forget it when it has no debt."""
        tenant.waiting = 0
        if tenant.credit < QUANTUM:
            self._order.rotate(-1)
            return
        if self._by_tenant.get(tenant.name) is tenant:
            del self._by_tenant[tenant.name]
        self._order.popleft()

    def _to_front(self) -> None:
        """Move the tenant whose call begins the next batch to the front."""
        begins, self._begins = self._begins, None
        if begins is not None and begins.calls and begins in self._order:
            self._order.rotate(-self._order.index(begins))

    def turn(self) -> deque[Any]:
        """Return the calls whose first one is to lead the next batch. The queue must not be empty."""
        if self._first:
            return self._first
        self._to_front()
        least_debt = inf
        for _ in range(len(self._order)):
            tenant = self._order[0]
            if tenant.calls:
                if tenant.credit + QUANTUM > 0:
                    return tenant.calls
                least_debt = min(least_debt, -tenant.credit)
            self._order.rotate(-1)
        for tenant in self._order:  # all are in debt: it is paid as if as many batches had passed
            tenant.credit = min(QUANTUM, tenant.credit + int(least_debt))
        return self.turn()

    def spend(self, call: QueuedCall) -> None:
        """Charge a tenant for the call that leads a batch."""
        tenant = self._by_tenant.get(call.tenant)
        if tenant is not None:
            tenant.credit -= call.cost

    def charge(self, batch: Sequence[QueuedCall]) -> None:
        """Charge tenants for the legs of holds that their calls have named, if others are queued."""
        if len(self._order) < 2:
            return
        for call in batch:
            tenant = self._by_tenant.get(call.tenant)
            if tenant is not None and call.outcomes is not None:
                legs = [len(reply.hold.legs) for reply in call.outcomes if isinstance(reply, Receipt) and reply.hold]
                tenant.spend(max(0, sum(legs) - call.legs - call.size))
