"""The server process on uvicorn: where it may listen, how it stops, and the limits that uvicorn lacks.

It listens on loopback by default. Another address needs at least one API key, and TLS or the explicit statement that a proxy
provides it. Files that the process creates are readable by their owner only.

uvicorn has no limit on the time that a request takes to arrive, and none on connections; `BoundedProtocol` adds both, and lets
a stream close the connection of a client that reads nothing, for which ASGI has no message.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..core.validation import invalid
from ..errors import EngineError
from ..faces._async.kernel import AsyncKernel
from .application import Application, Running
from .request import CLOSE_CONNECTION
from .settings import Settings

log = logging.getLogger("holdkit.server")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_binding(host: str, *, settings: Settings, tls: bool, behind_proxy: bool, keys: bool) -> None:
    """Refuse to expose a server without API keys or without TLS."""
    if is_loopback(host):
        return
    if settings.open:
        raise invalid("host", "host_exposed", "an open server asks for no API key: it may listen on loopback only")
    if not keys:
        raise invalid(
            "host",
            "host_exposed",
            "there is no API key yet: create one (holdkit keys make) before listening beyond loopback",
        )
    if not tls and not behind_proxy:
        raise invalid(
            "host",
            "host_exposed",
            "API keys would be sent unencrypted: give a certificate, or use --behind-proxy if a proxy provides TLS",
        )


class Server(uvicorn.Server):
    """uvicorn's server, which ends our streams before it waits for open connections."""

    def __init__(
        self, config: uvicorn.Config, application: Application, started: Callable[[str], object] | None
    ) -> None:
        super().__init__(config)
        self.application, self.on_started = application, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then report the address."""
        await super().startup(sockets)
        if self.started and self.on_started is not None:
            self.on_started(self.address)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Exit with success after a signal: uvicorn would raise it again and die of it."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()

    @property
    def address(self) -> str:
        """The base URL."""
        scheme = "https" if self.config.is_ssl else "http"
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams first."""
        if self.application.running is not None:
            self.application.running.stop()
        await super().shutdown(sockets)


def server(
    source: AsyncKernel | str,
    *,
    host: str = "127.0.0.1",
    port: int = 8420,
    settings: Settings | None = None,
    certificate: str | Path | None = None,
    private_key: str | Path | None = None,
    behind_proxy: bool = False,
    pepper: bytes | None = None,
    started: Callable[[str], object] | None = None,
) -> Server:
    """A server that is not running yet: call `await server(...).serve()` in your own event loop."""
    chosen = settings or Settings()

    def check(running: Running) -> None:
        tls = certificate is not None
        check_binding(host, settings=chosen, tls=tls, behind_proxy=behind_proxy, keys=not running.admission.empty)

    application = Application(source, settings=chosen, pepper=pepper, check=check)
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        lifespan="on",
        http=BoundedProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        ws="none",
        backlog=512,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, round(chosen.stop_timeout)),
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if private_key is None else str(private_key),
    )
    return Server(config, application, started)


def serve(source: str, *, host: str = "127.0.0.1", port: int = 8420, **more: Any) -> None:
    """Serve until SIGINT or SIGTERM; then close streams and finish running requests. Takes the arguments of `server`."""
    os.umask(0o077)
    made = server(source, host=host, port=port, **more)
    try:
        made.run()
    except SystemExit:  # uvicorn exits like this if it cannot start; it has logged why
        if made.application.failed is None:
            raise EngineError(f"cannot listen on {host}:{port}: the port may be in use") from None
    if made.application.failed is not None:
        raise made.application.failed


__all__ = ["Server", "check_binding", "serve", "server"]


class BoundedProtocol(HttpToolsProtocol):
    """One connection. The timeout runs from the start of the connection, and from the first byte of each later request."""

    _timeout: asyncio.TimerHandle | None = None
    _reading_headers = True
    _header_bytes = 0
    _arriving = False
    """A request has begun, and its end has not arrived."""
    _arrived = False
    """The end of a request was in the bytes that came last."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close the connection at once if there are too many."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, CLOSE_CONNECTION: transport.abort}
        if len(self.connections) > self._settings.max_connections:
            transport.abort()
        else:
            self._start_timeout()

    def data_received(self, data: bytes) -> None:
        """Stop the timeout when the request has arrived; a request that arrives in one piece never starts it. httptools keeps
        headers of any length: refuse them here."""
        self._header_bytes += len(data)
        self._arrived = False
        super().data_received(data)
        if self._arrived and not self._arriving:
            self._cancel_timeout()
        elif self._timeout is None and (self._arriving or self.cycle.response_complete):
            self._start_timeout()  # empty lines between two requests end uvicorn's timeout, and begin no request
        if self._reading_headers and self._header_bytes > self._settings.max_headers:
            self.send_400_response("The headers are too large.")

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self._arriving = self._reading_headers = True

    def on_headers_complete(self) -> None:
        """Its headers have arrived."""
        super().on_headers_complete()
        self._reading_headers, self._header_bytes = False, 0

    def on_message_complete(self) -> None:
        """Its body has arrived."""
        super().on_message_complete()
        self._arriving, self._arrived, self._reading_headers, self._header_bytes = False, True, True, 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timeout."""
        self._cancel_timeout()
        super().connection_lost(exc)

    @property
    def _settings(self) -> Any:
        return self.config.app.settings  # type: ignore[union-attr]

    def _start_timeout(self) -> None:
        self._timeout = self.loop.call_later(self._settings.receive_timeout, self.transport.abort)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
