"""What every remote verb is made of: the frame of a call, a request that changes something, a request that looks."""

from __future__ import annotations

from typing import Any

import httpx

from ...core.validation import invalid
from ...kernel._async.calls import Call, framed
from ...kernel.results import Hold
from ..clock import ServerClock
from ..wire import durability_of, hold_from, read_hold
from .transport import AsyncTransport, retry_key


class AsyncCalling:
    """One transport, and the clock of the server behind it."""

    def __init__(self, transport: AsyncTransport, clock: ServerClock) -> None:
        self._transport, self._clock = transport, clock

    def _frame(self, call: Call) -> dict[str, Any]:
        """The fields every command has, from the call or from the context."""
        no_transaction(call.get("tx"))
        return framed(call, "")

    def _said(self, call: Call) -> dict[str, Any]:
        """What every change says beside itself."""
        said = self._frame(call)
        return {name: said[name] for name in ("actor", "correlation_id", "reason") if said[name] is not None}

    async def _post(self, path: str, body: dict[str, Any], call: Call) -> httpx.Response:
        """A change, under the caller's retry key or one of its own."""
        sent = {name: value for name, value in body.items() if value is not None} | self._said(call)
        return await self._transport.ask("POST", path, sent, op=retry_key(call.get("op")))

    async def _change(self, path: str, body: dict[str, Any], call: Call, owner: str | None) -> Hold:
        """A change whose answer is a hold."""
        answer = await self._post(path, body, call)
        wire = read_hold(answer.content)
        if wire.server_time is not None:
            self._clock.told(wire.server_time, answer)
        return hold_from(wire, owner, durability_of(answer))

    async def _get(self, path: str, **query: Any) -> httpx.Response:
        """A look; what is None is not asked."""
        said = {name: _spelled(value) for name, value in query.items() if value is not None}
        return await self._transport.ask("GET", path, params=said)


def no_transaction(tx: Any) -> None:
    """Looking has a `tx=` too, in a kernel of one's own process."""
    if tx is not None:
        raise invalid("tx", "tx_unsupported", "a server cannot join a transaction of yours")


def _spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
