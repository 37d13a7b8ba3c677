"""Attempts at deliveries: one signed request each, to a checked address, in a slot of its tenant; logged and counted.

First attempts, retries, and replays with tests each have slots of their own. So receivers that are down, whose retries take long,
take nothing from those that answer, and neither does a replay.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from ...core.model import SECOND
from ...engines.clocks import Clock
from ..settings import Webhooks
from .addresses import TELLS_TENANT, AllowedTargets, TargetRefused, receiver_of
from .events import signed_headers
from .exchange import ExchangeFailed, certificates, post, within
from .hooks import Hook, Hooks
from .lookups import LookupFailed, Lookups
from .slots import FairSlots, Slot
from .status import Attempt, Kind, Outcome

log = logging.getLogger("holdkit.server")

NO_TARGET: Final = frozenset[Outcome](("target_refused", "lookup_failed", "lookup_timed_out"))
"""Outcomes that a tenant cannot tell apart: no request was sent."""
LOG_EVERY: Final = 10.0
"""Seconds between two warnings about one tenant's webhooks."""
MAX_LOGGED: Final = 1_000
"""Tenants whose last warning is remembered; the oldest go first."""


class Attempts:
    """Makes the attempts of this process."""

    def __init__(self, delivery: Webhooks, clock: Clock) -> None:
        self._delivery, self._clock = delivery, clock
        self.targets = AllowedTargets(delivery)
        self.lookups = Lookups(delivery.lookup_threads, delivery.tenant_lookup_threads)
        bounds = (delivery.attempts, delivery.tenant_attempts, delivery.receiver_attempts)
        replaying = FairSlots(*bounds)
        self.slots: dict[Kind, FairSlots] = {
            "first": FairSlots(*bounds),
            "retry": FairSlots(*bounds),
            "replay": replaying,
            "test": replaying,
        }
        self.outcomes: Counter[Outcome] = Counter()
        self.parked = 0
        self._tls: ssl.SSLContext | None = None
        self.warnings = Warnings()

    @property
    def busy(self) -> int:
        """Return how many attempts are under way."""
        return sum(slots.busy for slots in self._distinct())

    @property
    def waiting(self) -> int:
        """Return how many attempts wait for a slot."""
        return sum(slots.waiting for slots in self._distinct())

    def _distinct(self) -> tuple[FairSlots, ...]:
        return self.slots["first"], self.slots["retry"], self.slots["replay"]

    @asynccontextmanager
    async def slot(self, kind: Kind, tenant: str, hook: Hook) -> AsyncIterator[Slot]:
        """Wait for a slot for attempts and keep it during the block."""
        host, port = receiver_of(hook.url)
        async with self.slots[kind].slot(tenant, f"{host}:{port}") as slot:
            yield slot

    async def send(
        self, kind: Kind, slot: Slot, hooks: Hooks, hook: Hook, event: str, body: bytes, trace: str | None = None
    ) -> Attempt:
        """Make one attempt, in a slot that the caller has. The body of the answer is not read: it is untrusted. If the attempt is
        recorded, the receiver gets its trace context."""
        began, at = time.monotonic(), self._clock()
        status: int | None = None
        outcome: Outcome
        why: str | None = None
        try:
            async with slot.work():
                status = await self._exchange(hooks, hook, event, body, trace)
        except ExchangeFailed as failed:
            outcome, why = failed.outcome, str(failed)
        except TimeoutError:
            outcome, why = (
                "answer_timed_out",
                "no answer in time, and another tenant waits for the slot of this attempt",
            )
        else:
            outcome = "delivered" if 200 <= status < 300 else "gone" if status == 410 else "rejected"
            why = None if outcome == "delivered" else f"the receiver answered {status}"
        self.outcomes[outcome] += 1
        if why is not None:
            self.warnings.tell(hooks.tenant, hook.id, f"an attempt failed: {why}")
        seconds = round(time.monotonic() - began, 3)
        if outcome in NO_TARGET:  # counters and the server's log are the operator's, the attempt is the tenant's
            outcome, why, seconds = "target_refused", TELLS_TENANT, 0.0
        return Attempt(at=at, event=event, kind=kind, outcome=outcome, status=status, seconds=seconds, why=why)

    async def _exchange(self, hooks: Hooks, hook: Hook, event: str, body: bytes, trace: str | None) -> int:
        limits = self._delivery
        now = self._clock()
        headers = signed_headers(event, now // SECOND, body, hooks.secrets(hook, now))
        if trace is not None:
            headers["traceparent"] = trace
        ends = asyncio.get_running_loop().time() + limits.seconds
        addresses = await self.addresses(hooks.tenant, hook.url, ends)
        try:
            target = self.targets.choose(hook.url, addresses)
        except TargetRefused as refused:
            raise ExchangeFailed("target_refused", str(refused)) from None
        if target.tls and self._tls is None:
            self._tls = certificates()
        return await post(target, headers, body, self._tls if target.tls else None, limits, ends)

    async def addresses(self, tenant: str, url: str, ends: float = math.inf) -> list[str]:
        """Return the addresses of a URL's host. Raises `ExchangeFailed`."""
        host, port = receiver_of(url)
        seconds = self._delivery.lookup_timeout
        async with within(seconds, ends, "lookup_timed_out", "the host name was not resolved in time"):
            try:
                return await self.lookups.addresses(tenant, host, port)
            except LookupFailed as failed:
                raise ExchangeFailed("lookup_failed", str(failed)) from None


class Warnings:
    """Logs what goes wrong: at most one warning per tenant in `LOG_EVERY` seconds, which says how many it stands for."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """When the last warning was logged, and how many were not."""

    def tell(self, tenant: str, hook: str, what: str) -> None:
        """Log a warning, or count it."""
        now = time.monotonic()
        last, silent = self._tenants.get(tenant, (float("-inf"), 0))
        if now - last < LOG_EVERY:
            self._tenants[tenant] = (last, silent + 1)
            return
        more = f" ({silent} more warnings about webhooks of this tenant were not logged)" if silent else ""
        log.warning(
            "webhook %s of tenant %r: %s%s",
            hook,
            tenant,
            what,
            more,
            extra={"event": "webhook_failing", "webhook": hook, "tenant": tenant},
        )
        self._tenants[tenant] = (now, 0)
        self._tenants.move_to_end(tenant)
        if len(self._tenants) > MAX_LOGGED:
            self._tenants.popitem(last=False)
