"""A bound on what happens at a time, shared fairly: so many in this process, at most so many per tenant, and per tenant and
receiver. Whoever finds no room waits here, before anything is opened.

Theory of operation

*Invariant.* After every call, no one waits for whom there is room. So a newcomer that finds room takes it at once, without a look
at those that wait: they wait for their own tenant's or their own receiver's slots, not for the one that it takes.

*Turns.* Those that wait are queued by tenant. A slot that becomes free goes to the tenant whose turn was longest ago, and within
the tenant to the first whose receiver has room. However many wait for one tenant, the next tenant waits for one slot.

*Cost.* A tenant that waits although slots are free has slots in use itself. So a search for the next one passes over at most as
many tenants as there are slots.

*Interrupts.* A task that is cancelled while it waits leaves the queue when it runs next; until then its future is cancelled, and it
is passed over. If it was given a slot before it was cancelled, it gives it back.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct


class _Queued(Struct, eq=False):
    receiver: str
    granted: asyncio.Future[None]


class FairSlots:
    """Slots that tenants share."""

    def __init__(self, total: int, per_tenant: int, per_receiver: int) -> None:
        self._total, self._per_tenant, self._per_receiver = total, per_tenant, per_receiver
        self._tenants: Counter[str] = Counter()
        self._receivers: Counter[tuple[str, str]] = Counter()
        self._queues: OrderedDict[str, list[_Queued]] = OrderedDict()
        self.busy = 0
        """Slots in use."""

    @property
    def waiting(self) -> int:
        """How many wait for a slot."""
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def slot(self, tenant: str, receiver: str) -> AsyncIterator[None]:
        """Have a slot during the block."""
        await self.take(tenant, receiver)
        try:
            yield
        finally:
            self.give_back(tenant, receiver)

    async def take(self, tenant: str, receiver: str) -> None:
        """Have a slot until `give_back`."""
        if self._has_room(tenant, receiver):
            self._occupy(tenant, receiver)
            return
        queued = _Queued(receiver, asyncio.get_running_loop().create_future())
        self._queues.setdefault(tenant, []).append(queued)
        try:
            await queued.granted
        except asyncio.CancelledError:
            if queued.granted.done() and not queued.granted.cancelled():
                self.give_back(tenant, receiver)
            else:
                self._unqueue(tenant, queued)
            raise

    def give_back(self, tenant: str, receiver: str) -> None:
        """A slot is free again: the next in turn has it."""
        self.busy -= 1
        self._tenants[tenant] -= 1
        self._receivers[tenant, receiver] -= 1
        if not self._tenants[tenant]:
            del self._tenants[tenant]
        if not self._receivers[tenant, receiver]:
            del self._receivers[tenant, receiver]
        while self._grant_next():
            pass

    def _has_room(self, tenant: str, receiver: str) -> bool:
        return (
            self.busy < self._total
            and self._tenants[tenant] < self._per_tenant
            and self._receivers[tenant, receiver] < self._per_receiver
        )

    def _occupy(self, tenant: str, receiver: str) -> None:
        self.busy += 1
        self._tenants[tenant] += 1
        self._receivers[tenant, receiver] += 1

    def _grant_next(self) -> bool:
        if self.busy >= self._total:
            return False
        for tenant, queue in self._queues.items():
            for queued in queue:
                if not queued.granted.done() and self._has_room(tenant, queued.receiver):
                    self._unqueue(tenant, queued)
                    if tenant in self._queues:
                        self._queues.move_to_end(tenant)
                    self._occupy(tenant, queued.receiver)
                    queued.granted.set_result(None)
                    return True
        return False

    def _unqueue(self, tenant: str, queued: _Queued) -> None:
        self._queues[tenant].remove(queued)
        if not self._queues[tenant]:
            del self._queues[tenant]
