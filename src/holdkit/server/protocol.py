"""uvicorn's protocol with the bounds it lacks: a request must have arrived whole within a time, and there are only so many
connections. A caller who dribbles loses the connection, and costs nobody else anything; one who takes nothing can be hung up
on, which ASGI has no word for."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HANG_UP = "holdkit.hang_up"
"""In the state of a request's scope: cuts the connection at once."""
_ARRIVED = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED, h11.ERROR)


class GuardedProtocol(H11Protocol):
    """One connection. The clock runs from its first moment, and from the first byte of each later request."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Too many: hang up at once."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, HANG_UP: transport.abort}
        if len(self.connections) > self._settings.max_connections:
            transport.abort()
        else:
            self._arm()

    def data_received(self, data: bytes) -> None:
        """Stop the clock when the request is here; a request in one piece never starts it."""
        super().data_received(data)
        if self.conn.their_state in _ARRIVED:
            self._disarm()
        elif self._late is None:
            self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        """No clock outlives its connection."""
        self._disarm()
        super().connection_lost(exc)

    @property
    def _settings(self) -> Any:
        return self.config.app.settings  # type: ignore[union-attr]

    def _arm(self) -> None:
        self._late = self.loop.call_later(self._settings.receive_timeout, self.transport.abort)

    def _disarm(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
