"""The server process on uvicorn: where it may listen, how it stops, and how it gets a new certificate.

It listens on loopback by default. Another address needs at least one API key, and TLS or the explicit statement that a proxy
provides it. Files that the process creates are readable by their owner only. `connections.py` has the bounds and timeouts that
uvicorn lacks.

SIGTERM: for `drain` seconds the server reports on `/readyz` that it stops, and serves everything; it asks clients to close their
connections, so that they come back elsewhere. Then it accepts no more, ends its streams, finishes running requests within
`requests.stop_timeout`, and exits. SIGINT does the same without draining, and a second signal stops the server at once.

SIGHUP, or a change of the certificate's files: the server reads them into a new TLS context, which new connections use. If that
fails, because a file is broken or only one of the two has been replaced yet, it logs why and keeps the old one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn

from ..core.validation import invalid
from ..errors import EngineError
from ..faces._async.kernel import AsyncKernel
from .application import Application, Running
from .bounds import raise_file_limit
from .certificates import Certificate
from .connections import Listener
from .settings import Settings

log = logging.getLogger("holdkit.server")

STARTUP_FAILURE: Final = 3
"""The exit code with which uvicorn reports that it could not start."""


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
    """uvicorn's server, with our listener."""

    servers: list[Listener]  # type: ignore[assignment]

    def __init__(
        self,
        config: uvicorn.Config,
        application: Application,
        started: Callable[[str], object] | None,
        *,
        certificate: Certificate | None = None,
        behind_proxy: bool = False,
    ) -> None:
        super().__init__(config)
        self.application, self.on_started = application, started
        self.certificate, self.behind_proxy = certificate, behind_proxy
        self._drained: float | None = None
        self._looked = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, listen, then report the address."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            sys.exit(STARTUP_FAILURE)
        try:
            listening = sockets or await _bind(self.config)
        except OSError as failed:
            log.warning(
                "cannot listen on %s:%d: %s",
                self.config.host,
                self.config.port,
                failed.strerror,
                extra={"event": "listen_failed", "port": self.config.port},
            )
            await self.lifespan.shutdown()
            sys.exit(STARTUP_FAILURE)
        settings = self.application.settings
        listener = Listener(listening, self.config, self.server_state, settings, behind_proxy=self.behind_proxy)
        if self.certificate is not None:
            listener.context = self.certificate.context
        self.servers = [listener]
        if self.application.running is not None:
            self.application.running.connections = listener.numbers
        self.started = True
        if self.on_started is not None:
            self.on_started(self.address)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """SIGHUP rereads the certificate. It keeps its usual effect, the end of the process, if the server has none."""
        loop = asyncio.get_running_loop()
        hangup = self.certificate is not None and threading.current_thread() is threading.main_thread()
        with super().capture_signals():
            if hangup:
                loop.add_signal_handler(signal.SIGHUP, self.reread_certificate)
            try:
                yield
            finally:
                if hangup:
                    loop.remove_signal_handler(signal.SIGHUP)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """The first signal stops the server, SIGTERM after draining; a second one stops it at once. uvicorn would raise the
        signal again when it has stopped, and so end the process with an error."""
        if self.should_exit:
            self.force_exit = True
        elif sig != signal.SIGTERM:
            self._drained = 0.0
        self.should_exit = True

    @property
    def address(self) -> str:
        """The base URL."""
        scheme = "https" if self.config.is_ssl else "http"
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def on_tick(self, counter: int) -> bool:
        """uvicorn calls this ten times a second; the server stops when it returns true."""
        stopping = await super().on_tick(counter)
        now, settings = self.servers[0].loop.time(), self.application.settings
        if not stopping:
            if settings.tls.check_every and now - self._looked >= settings.tls.check_every:
                self._looked = now
                self.reread_certificate(only_changed=True)
            return False
        if self._drained is None:
            self._drained = now + settings.drain
            self.servers[0].draining = True
            if self.application.running is not None:
                self.application.running.draining = True
        return self.force_exit or now >= self._drained

    def reread_certificate(self, *, only_changed: bool = False) -> None:
        """Use the certificate that is in the files now, for new connections."""
        if self.certificate is not None and self.certificate.reread(only_changed=only_changed):
            self.servers[0].context = self.certificate.context

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams first."""
        if self.application.running is not None:
            self.application.running.stop()
        await super().shutdown(sockets)


async def _bind(config: uvicorn.Config) -> list[socket.socket]:
    """A listening socket for each address of the host."""
    found = await asyncio.get_running_loop().getaddrinfo(
        config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    made: list[socket.socket] = []
    for family, address in sorted({(family, address) for family, _, _, _, address in found}, key=str):
        made.append(socket.create_server(address[:2], family=family, backlog=config.backlog))
    return made


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

    files = None if certificate is None else Certificate(Path(certificate), Path(private_key) if private_key else None)
    application = Application(source, settings=chosen, pepper=pepper, check=check)
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        lifespan="on",
        http="httptools",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        ws="none",
        backlog=512,
        headers=[("Strict-Transport-Security", f"max-age={chosen.tls.hsts}")]
        if certificate and chosen.tls.hsts
        else [],
        timeout_graceful_shutdown=max(1, round(chosen.requests.stop_timeout)),
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if private_key is None else str(private_key),
    )
    return Server(config, application, started, certificate=files, behind_proxy=behind_proxy)


def serve(source: str, *, host: str = "127.0.0.1", port: int = 8420, **more: Any) -> None:
    """Serve until SIGINT or SIGTERM; then close streams and finish running requests. Takes the arguments of `server`."""
    os.umask(0o077)
    raise_file_limit(more.get("settings") or Settings())
    made = server(source, host=host, port=port, **more)
    try:
        made.run()
    except SystemExit:  # uvicorn exits like this if it cannot start; it has logged why
        if made.application.failed is None:
            raise EngineError(f"cannot listen on {host}:{port}: the port may be in use") from None
    if made.application.failed is not None:
        raise made.application.failed


__all__ = ["Server", "check_binding", "serve", "server"]
