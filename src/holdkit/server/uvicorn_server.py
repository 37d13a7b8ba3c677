"""From settings to a listening server: where it may bind, how it stops. Blocks until it is told to stop.

Binds loopback unless told otherwise; another address needs a key in the store, and TLS or the explicit word that somebody
else (a proxy) speaks it. Files that are made meanwhile are for their owner alone.
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

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..core.validation import invalid
from ..errors import EngineError
from ..faces._async.kernel import AsyncKernel
from .application import Application, Running
from .request import HANG_UP
from .settings import Settings

log = logging.getLogger("holdkit.server")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_binding(host: str, *, settings: Settings, tls: bool, behind_proxy: bool, keys: bool) -> None:
    """Refuse to expose what is not guarded."""
    if is_loopback(host):
        return
    if settings.open:
        raise invalid("host", "host_exposed", "an open server has no keys: it may listen on loopback only")
    if not keys:
        raise invalid("host", "host_exposed", "there is no key yet: make one before you listen beyond loopback")
    if not tls and not behind_proxy:
        raise invalid(
            "host", "host_exposed", "keys would travel in the clear: give a certificate, or say that a proxy speaks TLS"
        )


class Server(uvicorn.Server):
    """uvicorn, told about our streams: they end before it waits for connections to end."""

    def __init__(
        self, config: uvicorn.Config, application: Application, started: Callable[[str], object] | None
    ) -> None:
        super().__init__(config)
        self.application, self.on_started = application, started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Then say where we are."""
        await super().startup(sockets)
        if self.started and self.on_started is not None:
            self.on_started(self.address)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A stop that was asked for is a success: uvicorn would raise the signal once more, and die of it."""
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
        """Streams first."""
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
    """A server that is not running yet: `await server(...).serve()` in a loop of your own."""
    chosen = settings or Settings()

    def guard(running: Running) -> None:
        tls = certificate is not None
        check_binding(host, settings=chosen, tls=tls, behind_proxy=behind_proxy, keys=not running.gate.empty)

    application = Application(source, settings=chosen, pepper=pepper, guard=guard)
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        lifespan="on",
        http=GuardedProtocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        ws="none",
        backlog=512,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, round(chosen.stop_timeout)),
        h11_max_incomplete_event_size=chosen.max_headers,
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if private_key is None else str(private_key),
    )
    return Server(config, application, started)


def serve(source: str, *, host: str = "127.0.0.1", port: int = 8420, **more: Any) -> None:
    """Serve until SIGINT or SIGTERM: streams are closed, requests under way finished. Arguments as for `server`."""
    os.umask(0o077)
    made = server(source, host=host, port=port, **more)
    try:
        asyncio.run(made.serve())
    except SystemExit:  # uvicorn's way to say that it could not start; it has logged why
        if made.application.failed is None:
            raise EngineError(f"cannot listen on {host}:{port}: is the port taken?") from None
    if made.application.failed is not None:
        raise made.application.failed


def main(arguments: list[str] | None = None) -> int:
    """`python -m holdkit.server URL [--host] [--port] [--open]`."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m holdkit.server", description="Serve holds over HTTP.")
    parser.add_argument("url", nargs="?", default="sqlite:///holds.db")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8420)
    parser.add_argument("--open", action="store_true", help="ask for no key; loopback only")
    parser.add_argument("--certificate")
    parser.add_argument("--private-key")
    parser.add_argument("--behind-proxy", action="store_true", help="a proxy in front speaks TLS")
    chosen = parser.parse_args(arguments)
    serve(
        chosen.url,
        host=chosen.host,
        port=chosen.port,
        settings=Settings(open=chosen.open),
        certificate=chosen.certificate,
        private_key=chosen.private_key,
        behind_proxy=chosen.behind_proxy,
        started=lambda address: print(f"holdkit listens on {address}", flush=True),  # noqa: T201 - it is a program
    )
    return 0


__all__ = ["Server", "check_binding", "main", "serve", "server"]


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
