# Generated from ../_async/remote.py by tools/gen_sync.py: do not edit.
"""The kernel at a distance: the same verbs and faces, the same answers, the same exceptions."""

from __future__ import annotations

from functools import cached_property
from types import TracebackType
from typing import Any, Self, Unpack

import httpx

from ...core.commands import Ttl
from ...kernel._sync.calls import Call
from ...kernel.spelling import What
from ...kernel.workers import GRACE, Worker
from ..clock import ServerClock
from ..retrying import Policy
from .blocks import RemoteHolding, RemoteLease
from .budgets import RemoteBudgets
from .claims import RemoteClaims
from .items import RemoteItems
from .sagas import RemoteSagas
from .transport import Transport
from .verbs import RemoteVerbs


class RemoteKernel(RemoteVerbs):
    """A server's kernel, for the tenant of the key. Safe to share; close it when done."""

    def __init__(self, url: str, *, key: str | None = None, policy: Policy | None = None, http: Any = None) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        chosen = policy or Policy()
        if http is None:
            http = httpx.Client(timeout=httpx.Timeout(10.0, read=chosen.seconds), follow_redirects=False)
        http.base_url = url
        http.headers.update(headers)
        super().__init__(Transport(http, chosen), ServerClock())
        self._crew: set[Worker] = set()
        self.url = url

    @cached_property
    def claims(self) -> RemoteClaims:
        """Keys that only one can have: an email address, a user name."""
        return RemoteClaims(self._transport, self._clock)

    @cached_property
    def items(self) -> RemoteItems:
        """Single things, each available, held or spent: seats, vouchers, postings."""
        return RemoteItems(self._transport, self._clock)

    @cached_property
    def sagas(self) -> RemoteSagas:
        """Sagas, to look at."""
        return RemoteSagas(self._transport, self._clock)

    def budgets(self, name: str, /) -> RemoteBudgets:
        """Budgets that are held together, as they are written down on the server."""
        return RemoteBudgets(self._transport, self._clock, name)

    def holding(
        self,
        what: What,
        quantity: int | None = None,
        *,
        ttl: Ttl,
        entity: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> RemoteHolding:
        """A block that holds: leaves normally → confirmed; raises → released; too late → `HoldExpired`."""
        return RemoteHolding(self, self._kept(call), what, quantity, ttl, metadata, entity)

    def lease(self, what: What, quantity: int | None = None, *, ttl: Ttl, **call: Unpack[Call]) -> RemoteLease:
        """A job slot: renewed while inside, always released; `lost` and `check()` tell when it was taken away."""
        return RemoteLease(self, self._kept(call), what, quantity, ttl, self._crew, self._clock)

    def _kept(self, call: Call) -> Call:
        """The frame as it is now: a block ends under the same actor as it began, whatever the context is by then."""
        kept: Any = self._frame(call)
        kept |= {"op": op} if (op := call.get("op")) is not None else {}
        return kept  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the renewing of leases, and give back every connection."""
        for worker in list(self._crew):
            worker.end(GRACE)
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.url}>"
