"""The kernel at a distance: the same verbs and faces, the same answers, the same exceptions."""

from __future__ import annotations

from functools import cached_property
from types import TracebackType
from typing import Any, Self, Unpack

import httpx

from ...core.commands import Ttl
from ...kernel._async.calls import Call
from ...kernel.spelling import What
from ...kernel.workers import GRACE, AsyncWorker
from ..clock import ServerClock
from ..retrying import Policy
from .blocks import AsyncRemoteHolding, AsyncRemoteLease
from .budgets import AsyncRemoteBudgets
from .claims import AsyncRemoteClaims
from .items import AsyncRemoteItems
from .sagas import AsyncRemoteSagas
from .transport import AsyncTransport
from .verbs import AsyncRemoteVerbs


class AsyncRemoteKernel(AsyncRemoteVerbs):
    """A server's kernel, for the tenant of the key. Safe to share; close it when done."""

    def __init__(self, url: str, *, key: str | None = None, policy: Policy | None = None, http: Any = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        chosen = policy or Policy()
        if http is None:
            http = httpx.AsyncClient(timeout=httpx.Timeout(10.0, read=chosen.seconds), follow_redirects=False)
        http.base_url = url
        http.headers.update(headers)
        super().__init__(AsyncTransport(http, chosen), ServerClock())
        self._crew: set[AsyncWorker] = set()
        self.url = url

    @cached_property
    def claims(self) -> AsyncRemoteClaims:
        """Keys that only one can have: an email address, a user name."""
        return AsyncRemoteClaims(self._transport, self._clock)

    @cached_property
    def items(self) -> AsyncRemoteItems:
        """Single things, each available, held or spent: seats, vouchers, postings."""
        return AsyncRemoteItems(self._transport, self._clock)

    @cached_property
    def sagas(self) -> AsyncRemoteSagas:
        """Sagas, to look at."""
        return AsyncRemoteSagas(self._transport, self._clock)

    def budgets(self, name: str, /) -> AsyncRemoteBudgets:
        """Budgets that are held together, as they are written down on the server."""
        return AsyncRemoteBudgets(self._transport, self._clock, name)

    def holding(
        self,
        what: What,
        quantity: int | None = None,
        *,
        ttl: Ttl,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> AsyncRemoteHolding:
        """A block that holds: leaves normally → confirmed; raises → released; too late → `HoldExpired`."""
        return AsyncRemoteHolding(self, self._kept(call), what, quantity, ttl, metadata, entity)

    def lease(self, what: What, quantity: int | None = None, *, ttl: Ttl, **call: Unpack[Call]) -> AsyncRemoteLease:
        """A job slot: renewed while inside, always released; `lost` and `check()` tell when it was taken away."""
        return AsyncRemoteLease(self, self._kept(call), what, quantity, ttl, self._crew, self._clock)

    def _kept(self, call: Call) -> Call:
        """The frame as it is now: a block ends under the same actor as it began, whatever the context is by then."""
        kept: Any = self._frame(call)
        kept |= {"op": op} if (op := call.get("op")) is not None else {}
        return kept  # type: ignore[no-any-return]

    async def aclose(self) -> None:
        """End the renewing of leases, and give back every connection."""
        for worker in list(self._crew):
            await worker.end(GRACE)
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"
