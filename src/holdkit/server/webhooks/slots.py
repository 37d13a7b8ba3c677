"""A bound on concurrent work in this process, shared fairly: in all, per tenant, and per tenant and receiver. Work without a free
slot waits here, before it opens anything.

Theory of operation

*Invariant.* After every call, no waiter could take a free slot. So a newcomer that finds room takes it at once, without a look
at those that wait: they wait for their own tenant's or their own receiver's slots, not for the one that it takes.

*Turns.* Waiters are queued by tenant. A slot that becomes free goes to a tenant that has none, else to any; among these to the
tenant that was served longest ago, and within the tenant to the first waiter whose receiver has room. However many wait for one tenant,
the next tenant waits for one slot.

*Slow work.* While all slots are taken, one slot is *wanted* back for each tenant that waits and has none: the oldest slot of the tenant
that has the most. The work in a wanted slot (`Slot.work`) is ended when the slot is `CERTAIN_SECONDS` old. So a tenant waits at most
`CERTAIN_SECONDS` for its first slot, unless more tenants wait for one than there are slots. Work that is faster is never ended, and
nothing is ended while a slot is free.

*Cost.* A tenant that waits although slots are free has slots in use itself, and so has one that is passed over. So a search for the
next one passes over at most as many tenants as there are slots.

*Interrupts.* A task that is cancelled while it waits leaves the queue when it runs next; until then its future is cancelled, and it
is passed over. If it was given a slot before it was cancelled, it gives it back.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct

CERTAIN_SECONDS: Final = 3.0
"""Seconds for which a slot is certain; work that takes longer may be ended for a tenant that has none."""
LEAST_WORK_SECONDS: Final = 2.0
"""Seconds that work in a slot has in any case, however late in its time it begins."""


class Slot(Struct, eq=False):
    """A slot in use."""

    tenant: str
    receiver: str
    taken_at: float
    """By the clock of the event loop."""
    wanted: bool = False
    """Whether a tenant that has none waits for it."""
    limit: asyncio.Timeout | None = None
    """Of the work that is being done in it."""
    ends_at: float = 0.0
    """When that work is ended, if the slot is wanted."""

    @asynccontextmanager
    async def work(self) -> AsyncIterator[None]:
        """Run the work in the slot. Raise `TimeoutError` if it takes long and another tenant has no slot."""
        now = asyncio.get_running_loop().time()
        self.ends_at = max(self.taken_at + CERTAIN_SECONDS, now + LEAST_WORK_SECONDS)
        async with asyncio.timeout_at(self.ends_at if self.wanted else None) as self.limit:
            try:
                yield
            finally:
                self.limit = None

    def want(self, *, wanted: bool) -> None:
        """Want the slot back, or no longer."""
        self.wanted = wanted
        if self.limit is not None and not self.limit.expired():
            self.limit.reschedule(self.ends_at if wanted else None)


class _Queued(Struct, eq=False):
    receiver: str
    granted: asyncio.Future[Slot]


class FairSlots:
    """Slots that tenants share."""

    def __init__(self, total: int, per_tenant: int, per_receiver: int) -> None:
        self._total, self._per_tenant, self._per_receiver = total, per_tenant, per_receiver
        self._held: dict[str, list[Slot]] = {}
        """By tenant, in the order in which they were taken."""
        self._receivers: Counter[tuple[str, str]] = Counter()
        self._queues: OrderedDict[str, list[_Queued]] = OrderedDict()
        self._wanted: list[Slot] = []
        self.busy = 0
        """Slots in use."""

    @property
    def waiting(self) -> int:
        """Return how many wait for a slot."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def slot(self, tenant: str, receiver: str) -> AsyncIterator[Slot]:
        """Wait for a slot and keep it during the block."""
        slot = await self.take(tenant, receiver)
        try:
            yield slot
        finally:
            self.give_back(slot)

    async def take(self, tenant: str, receiver: str) -> Slot:
        """Wait for a slot and keep it until `give_back`."""
        if self._has_room(tenant, receiver):
            return self._occupy(tenant, receiver)
        queued = _Queued(receiver, asyncio.get_running_loop().create_future())
        self._queues.setdefault(tenant, []).append(queued)
        self._want()
        try:
            return await queued.granted
        except asyncio.CancelledError:
            if queued.granted.done() and not queued.granted.cancelled():
                self.give_back(queued.granted.result())
            else:
                self._unqueue(tenant, queued)
                self._want()
            raise

    def give_back(self, slot: Slot) -> None:
        """Free the slot and grant it to the next in turn."""
        tenant, receiver = slot.tenant, slot.receiver
        self.busy -= 1
        self._held[tenant].remove(slot)
        self._receivers[tenant, receiver] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        if not self._receivers[tenant, receiver]:
            del self._receivers[tenant, receiver]
        if slot.wanted:
            self._wanted.remove(slot)
        while self._grant_next():
            pass
        self._want()

    def _has_room(self, tenant: str, receiver: str) -> bool:
        return (
            self.busy < self._total
            and len(self._held.get(tenant, ())) < self._per_tenant
            and self._receivers[tenant, receiver] < self._per_receiver
        )

    def _occupy(self, tenant: str, receiver: str) -> Slot:
        slot = Slot(tenant, receiver, asyncio.get_running_loop().time())
        self.busy += 1
        self._held.setdefault(tenant, []).append(slot)
        self._receivers[tenant, receiver] += 1
        return slot

    def _grant_next(self) -> bool:
        """Grant a free slot to the next in turn, if there is any."""
        if self.busy >= self._total:
            return False
        chosen: tuple[str, _Queued] | None = None
        for tenant, queue in self._queues.items():
            queued = next(
                (one for one in queue if not one.granted.done() and self._has_room(tenant, one.receiver)), None
            )
            if queued is not None and (chosen is None or tenant not in self._held):
                chosen = tenant, queued
                if tenant not in self._held:
                    break
        if chosen is None:
            return False
        tenant, queued = chosen
        self._unqueue(tenant, queued)
        if tenant in self._queues:
            self._queues.move_to_end(tenant)
        queued.granted.set_result(self._occupy(tenant, queued.receiver))
        return True

    def _want(self) -> None:
        """Want a slot back for each tenant that waits and has none."""
        needed = 0 if self.busy < self._total else sum(tenant not in self._held for tenant in self._queues)
        while len(self._wanted) > needed:
            self._wanted.pop().want(wanted=False)
        while len(self._wanted) < min(needed, self._total):
            kept = ([slot for slot in held if not slot.wanted] for held in self._held.values())
            slot = max(kept, key=len)[0]
            slot.want(wanted=True)
            self._wanted.append(slot)

    def _unqueue(self, tenant: str, queued: _Queued) -> None:
        self._queues[tenant].remove(queued)
        if not self._queues[tenant]:
            del self._queues[tenant]
