"""The server process: uvicorn's own server with our guard, and how it stops.

`listening.py` has where it may listen, `guard.py` the bounds and deadlines that uvicorn lacks. Files that the process creates are
readable by their owner only, but for a Unix socket, which its group may use too.

SIGTERM: for `drain` seconds the server reports on `/readyz` that it stops, and serves everything; it asks clients to close their
connections, so that they come back elsewhere. Then it accepts no more, ends its streams, finishes running requests within
`requests.stop_timeout`, and exits. SIGINT does the same without draining, and a second signal stops the server at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from ..core.validation import invalid
from ..errors import EngineError
from ..faces._async.kernel import AsyncKernel
from .application import Application, Running
from .bounds import raise_file_limit
from .guard import Clients, Guard
from .listening import bound_kernel, check_binding, unix_socket
from .settings import Settings

log = logging.getLogger("holdkit.server")


class Server(uvicorn.Server):
    """uvicorn's server, which checks the deadlines of clients, drains, and ends its streams before it stops."""

    def __init__(
        self,
        config: uvicorn.Config,
        application: Application,
        clients: Clients,
        started: Callable[[str], object] | None,
        *,
        uds: Path | None = None,
    ) -> None:
        super().__init__(config)
        self.application, self.clients, self.on_started, self._uds = application, clients, started, uds
        self._drained: float | None = None
        self._check_at = 0.0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the application, listen, then report the address."""
        if self._uds is not None:
            sockets = [unix_socket(self._uds)]
        try:
            await super().startup(sockets)
        except SystemExit:  # uvicorn has logged why
            self._remove_socket(sockets)
            if not self.lifespan.should_exit:
                log.warning(
                    "cannot listen on %s:%d",
                    self.config.host,
                    self.config.port,
                    extra={"event": "listen_failed", "port": self.config.port},
                )
            raise
        for listening in self._listening:
            bound_kernel(listening, self.clients.limits.write_timeout)
        if self.application.running is not None:
            self.application.running.connections = self._numbers
        if self.on_started is not None:
            self.on_started(self.address)

    @property
    def _listening(self) -> list[socket.socket]:
        return [listening for server in self.servers for listening in server.sockets]

    def _remove_socket(self, sockets: list[socket.socket] | None) -> None:
        for listening in sockets or ():
            listening.close()
        if self._uds is not None:
            self._uds.unlink(missing_ok=True)

    def _numbers(self) -> dict[str, int]:
        clients = self.clients
        counted = {"limit": clients.max_open, "refused": clients.refused, "dropped": clients.dropped}
        return {"open": len(self.server_state.connections)} | counted

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - uvicorn's signature
        """Stop the server at the first signal, after draining if it is SIGTERM; at a second one, stop at once. uvicorn would raise the
        signal again when it has stopped, and so end the process with an error."""
        if self.should_exit:
            self.force_exit = True
        elif sig != signal.SIGTERM:
            self._drained = 0.0
        self.should_exit = True

    @property
    def address(self) -> str:
        """Return the base URL, or the path of the socket after `unix:`."""
        if self._uds is not None:
            return f"unix:{self._uds}"
        scheme = "https" if self.config.is_ssl else "http"
        host, port = self._listening[0].getsockname()[:2]
        return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"

    async def on_tick(self, counter: int) -> bool:
        """Check the connections and return whether to stop. uvicorn calls this ten times a second."""
        is_stopping = await super().on_tick(counter)
        now = asyncio.get_running_loop().time()
        if now >= self._check_at:
            self._check_at = now + self.clients.check_seconds
            for connection in list(self.server_state.connections):
                connection.check(now)  # type: ignore[union-attr]
            self.clients.report(now, len(self.server_state.connections))
        if not is_stopping:
            return False
        if self._drained is None:
            self._drained = now + self.application.settings.drain
            self.clients.draining = True
            if self.application.running is not None:
                self.application.running.draining = True
        return self.force_exit or now >= self._drained

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down; end the streams first."""
        if self.application.running is not None:
            self.application.running.stop()
        await super().shutdown(sockets)
        self._remove_socket(sockets)


def server(
    source: AsyncKernel | str,
    *,
    host: str = "127.0.0.1",
    port: int = 8420,
    uds: str | Path | None = None,
    settings: Settings | None = None,
    certificate: str | Path | None = None,
    private_key: str | Path | None = None,
    behind_proxy: bool = False,
    pepper: bytes | None = None,
    started: Callable[[str], object] | None = None,
) -> Server:
    """Return a server that is not running yet: call `await server(...).serve()` in your own event loop. With `uds`, the path of a Unix
    socket, it listens there, and on no port."""
    chosen = settings or Settings()

    def check(running: Running) -> None:
        if uds is None:
            check_binding(host, settings=chosen, behind_proxy=behind_proxy, keys=not running.admission.empty)

    application, clients = Application(source, settings=chosen, pepper=pepper, check=check), Clients(chosen)
    config = uvicorn.Config(
        application,
        host=host,
        port=port,
        lifespan="on",
        http=partial(Guard, clients),  # type: ignore[arg-type]  # it makes a protocol, as the class would
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        ws="none",
        backlog=512,
        timeout_graceful_shutdown=max(1, round(chosen.requests.stop_timeout)),
        ssl_certfile=None if certificate is None else str(certificate),
        ssl_keyfile=None if private_key is None else str(private_key),
    )
    try:
        config.load()
    except OSError as failed:  # an SSLError is one too
        raise invalid("certificate", "certificate_unusable", f"cannot use {certificate}: {failed}") from None
    return Server(config, application, clients, started, uds=None if uds is None else Path(uds))


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
