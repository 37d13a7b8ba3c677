"""Connections: what uvicorn lacks to hold its ground against clients that connect and never talk, talk and never read, or
send requests that two parsers read differently.

Theory of operation
-------------------

`Listener` accepts; uvicorn's own server would count a connection only when its TLS handshake is over, and would not know its
address before. Every accepted socket is in exactly one of these states, and counts against the bounds in all of them:

    silent      It has not sent a byte. It is a bare socket: no transport, no TLS object, no task. asyncio allocates 256 KiB
                for a TLS connection, so a handshake begins when its first byte is there.
    handshake   TLS only. At most `max_handshakes` run at a time; one more takes the slot of the oldest. Handshakes that were
                begun and abandoned therefore delay nobody, as they would if the others had to wait for them.
    idle        Between two requests, or the head of the next one is incomplete. Nothing of it has been looked at.
    working     A request's head is complete, its answer is not.
    closing     The transport is closed, but the client has not yet taken what was written before.

Bounds. A socket beyond `connections.max` takes the slot of the one that has been silent or idle for the longest time, so idle
sockets and requests that never arrive cannot lock anybody out: without an API key one can keep a slot only by not reading an
answer, for `write_timeout`. If all are busy, a client without TLS is answered 503, and its socket is closed when the client
has read that, or after a second; only `REFUSING` sockets may wait for it, the others are closed at once. So is a client with TLS,
for whom an answer would cost a handshake. One address gets at most its share. If the process runs out of descriptors all the
same, the listener stops accepting for a second: the kernel's queue holds newcomers meanwhile, and nothing spins.

Timeouts. No connection has a timer of its own: `Listener.check` looks at all of them a few times per shortest timeout, so a
request pays nothing for them. A client must send a whole request within `receive_timeout`, and finish its handshake within
`handshake_timeout`. It must take what is written to it: if the unsent bytes do not fall by `MIN_PROGRESS` within
`write_timeout`, the connection is aborted, in every state. While writing is paused or the transport is closing, nothing is
added to the unsent bytes, so their number can only fall; otherwise growth leaves the running timeout as it is, and only
`resume_writing` (most of it was taken) begins a new one. A closing TLS transport reports no unsent bytes although the socket
below it has some, therefore closing itself has this timeout. The kernel's part is bounded by TCP_NOTSENT_LOWAT (how much it
takes) and TCP_USER_TIMEOUT (how long it keeps it, also after the close), which accepted sockets inherit from the listening one.

`protocol.py` has what happens on a connection once its first byte is there: how requests are read, and which are refused.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import logging
import socket
import ssl
from collections import Counter
from contextlib import suppress
from typing import Final

import uvicorn
from uvicorn.server import ServerState

from ..wire.problems import Problem
from .bounds import bounds_of
from .protocol import PIECE, Connection, raw_problem
from .settings import Settings

log = logging.getLogger("holdkit.server")

KERNEL_BUFFER: Final = 128 * 1024
"""Bytes of one connection that the kernel takes before the client has room for them."""
ACCEPTS: Final = 64
"""Connections accepted before the event loop attends to others."""
REFUSING: Final = 32
"""Refused sockets that are still open until the client has read its 503."""
REPORT_EVERY: Final = 10.0
"""Seconds between two warnings about refused and dropped clients."""
LOOPBACK: Final = ("127.0.0.1", "::/64")
"""As `_address_of` has them: there all clients may have the address of their proxy."""
FULL: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
OVERLOADED: Final = Problem(503, "overloaded", "the server has too many connections: retry later", retry_after=1.0)


class Silent:
    """An accepted socket that has sent nothing yet, then its handshake."""

    __slots__ = ("address", "listener", "since", "socket")

    def __init__(self, listener: Listener, accepted: socket.socket, address: str) -> None:
        self.listener, self.socket, self.address = listener, accepted, address
        self.since = listener.now
        listener.idle[self] = listener.silent[self] = None
        listener.loop.add_reader(accepted, self._first_byte)

    def _first_byte(self) -> None:
        listener = self.listener
        listener.loop.remove_reader(self.socket)
        try:
            begun = bool(self.socket.recv(1, socket.MSG_PEEK))
        except OSError:
            begun = False
        if begun:
            self._start()
        else:
            self.evict()

    def _start(self) -> None:
        """Hand the socket over to a transport, with a TLS handshake if the server has a certificate."""
        listener = self.listener
        del listener.silent[self]
        listener.idle.pop(self, None)
        connection = Connection(listener, self.address)
        task = listener.loop.create_task(self._connect(connection))
        task.add_done_callback(lambda task: self._started(task, connection))
        if listener.context is not None and len(listener.starting) >= listener.limits.max_handshakes:
            oldest = next(iter(listener.starting))
            del listener.starting[oldest]
            oldest.cancel()
        listener.starting[task] = None

    async def _connect(self, connection: Connection) -> None:
        listener, limits = self.listener, self.listener.limits
        timeouts: dict[str, float] = {}
        if listener.context is not None:
            timeouts = {
                "ssl_handshake_timeout": limits.handshake_timeout,
                "ssl_shutdown_timeout": limits.write_timeout,
            }
        with suppress(OSError):  # a failed handshake is one too
            await listener.loop.connect_accepted_socket(
                lambda: connection, self.socket, ssl=listener.context, **timeouts
            )

    def _started(self, task: asyncio.Task[None], connection: Connection) -> None:
        self.listener.starting.pop(task, None)
        if not connection.made:  # otherwise the connection gives its slot back
            self.socket.close()
            self.listener.release(self.address)

    def evict(self) -> None:
        """Close the socket, before the handshake."""
        self.listener.loop.remove_reader(self.socket)
        del self.listener.silent[self]
        self.listener.idle.pop(self, None)
        self.socket.close()
        self.listener.release(self.address)


class Listener:
    """Accepts connections on listening sockets, within the bounds. To uvicorn it is one of its `servers`."""

    def __init__(
        self,
        sockets: list[socket.socket],
        config: uvicorn.Config,
        state: ServerState,
        settings: Settings,
        *,
        behind_proxy: bool = False,
    ) -> None:
        self.sockets, self.config, self.state, self.settings = sockets, config, state, settings
        bounds, self.limits = bounds_of(settings), settings.connections
        limits = self.limits
        explicit = limits.max_per_address is not None
        self._most = bounds.connections
        self._share = bounds.per_address if explicit or not behind_proxy else self._most
        self._share_of_loopback = bounds.per_address if explicit else self._most
        self.context: ssl.SSLContext | None = None
        """The TLS context of new connections; replace it to use another certificate."""
        self.loop = asyncio.get_running_loop()
        self.now = self.loop.time()
        """The time of the last check: exact enough for timeouts, and it costs a request nothing."""
        self.silent: dict[Silent, None] = {}
        self.idle: dict[Silent | Connection, None] = {}
        """Those that are silent or idle, the longest first."""
        self.starting: dict[asyncio.Task[None], None] = {}
        """Handshakes, the oldest first."""
        self.open = self.refused = self.evicted = self.dropped = 0
        self.draining = self.closed = False
        self._of_address: Counter[str] = Counter()
        self._refusing: dict[socket.socket, float] = {}
        self._reported, self._report_at = (0, 0), 0.0
        self._every = min(1.0, min(limits.receive_timeout, limits.write_timeout, limits.handshake_timeout) / 4)
        self._timer = self.loop.call_later(self._every, self._tick)
        for listening in sockets:
            listening.setblocking(False)
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for name, value in (
                ("TCP_USER_TIMEOUT", round(limits.write_timeout * 1000)),
                ("TCP_NOTSENT_LOWAT", KERNEL_BUFFER),
            ):
                if hasattr(socket, name):  # not on every system
                    listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            self.loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS):
            try:
                accepted, peer = listening.accept()
            except OSError as failed:
                if failed.errno in FULL:
                    self._pause(listening, failed)
                return  # there is no other, or it is gone already
            accepted.setblocking(False)
            address = _address_of(peer[0])
            if not self._has_room(address):
                self._refuse(accepted)
            else:
                self.open += 1
                self._of_address[address] += 1
                Silent(self, accepted, address)

    def _has_room(self, address: str) -> bool:
        share = self._share_of_loopback if address in LOOPBACK else self._share
        if self._of_address[address] >= share < self._most:
            return False
        if self.open >= self._most and self.idle:
            self.evicted += 1
            next(iter(self.idle)).evict()
        return self.open < self._most

    def _pause(self, listening: socket.socket, why: OSError) -> None:
        """The process has no descriptors left: accept nothing for a second, and free some."""
        log.error("the server accepts no connections for a second: %s", why.strerror, extra={"event": "accept_failed"})
        self.loop.remove_reader(listening)
        self.loop.call_later(1.0, self._resume, listening)
        for one in list(self.idle)[:ACCEPTS]:
            self.evicted += 1
            one.evict()

    def _resume(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            self.loop.add_reader(listening, self._accept, listening)

    def _refuse(self, accepted: socket.socket) -> None:
        self.refused += 1
        if self.context is not None or len(self._refusing) >= REFUSING:
            accepted.close()
            return
        try:
            accepted.send(raw_problem(OVERLOADED))
            accepted.shutdown(socket.SHUT_WR)
        except OSError:
            accepted.close()
            return
        self._refusing[accepted] = self.now
        self.loop.add_reader(accepted, self._read_refused, accepted)

    def _read_refused(self, refused: socket.socket) -> None:
        """Discard what a refused client sends: closing a socket with unread bytes would destroy the answer on its way."""
        try:
            if refused.recv(PIECE):
                return
        except OSError:
            pass
        self._drop_refused(refused)

    def _drop_refused(self, refused: socket.socket) -> None:
        self.loop.remove_reader(refused)
        refused.close()
        del self._refusing[refused]

    def release(self, address: str) -> None:
        """A connection has ended."""
        self.open -= 1
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]

    def _tick(self) -> None:
        self._timer = self.loop.call_later(self._every, self._tick)
        self.now = now = self.loop.time()
        limits = self.limits
        late = now - (limits.receive_timeout if self.context is None else limits.handshake_timeout)
        for silent in [silent for silent in self.silent if silent.since <= late]:
            silent.evict()
        for refused in [refused for refused, since in self._refusing.items() if since <= now - 1.0]:
            self._drop_refused(refused)
        for connection in list(self.state.connections):
            connection.check(now)  # type: ignore[union-attr]
        if (self.refused, self.dropped) != self._reported and now >= self._report_at:
            log.warning(
                "since the start: %d connections refused, %d clients disconnected because they read nothing; %d are open",
                self.refused,
                self.dropped,
                self.open,
                extra={
                    "event": "connections_ended",
                    "refused": self.refused,
                    "dropped": self.dropped,
                    "open": self.open,
                },
            )
            self._reported, self._report_at = (self.refused, self.dropped), now + REPORT_EVERY

    def numbers(self) -> dict[str, int]:
        """For `/v1/stats` and `/metrics`."""
        return {
            "open": self.open,
            "idle": len(self.idle),
            "limit": self._most,
            "refused": self.refused,
            "evicted": self.evicted,
            "dropped": self.dropped,
        }

    def close(self) -> None:
        """Accept no more; close the sockets on which nothing has arrived."""
        self.closed = True
        for listening in self.sockets:
            self.loop.remove_reader(listening)
            listening.close()
        for silent in list(self.silent):
            silent.evict()
        for refused in list(self._refusing):
            self._drop_refused(refused)

    async def wait_closed(self) -> None:
        """uvicorn calls this when all connections are closed."""
        self._timer.cancel()


def _address_of(host: str) -> str:
    """What counts as one client: an IPv4 address, or the /64 network that one customer gets with IPv6."""
    if ":" not in host:
        return host
    address = ipaddress.IPv6Address(host.partition("%")[0])
    return str(address.ipv4_mapped or ipaddress.IPv6Network((address, 64), strict=False))
