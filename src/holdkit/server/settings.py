"""Every bound of the server, in one place, and its secret. What is not bounded here is bounded by `holdkit.Limits`."""

from __future__ import annotations

import os

from msgspec import Struct

KIB = 1024


class Delivery(Struct, frozen=True, kw_only=True):
    """How hooks are delivered."""

    pauses: tuple[float, ...] = (1.0, 5.0, 30.0, 120.0, 600.0)
    """Between attempts; then an entry is parked."""
    seconds: float = 10.0
    """Of one attempt."""
    allowed: frozenset[str] = frozenset()
    """Hosts that may be anywhere, and may be spoken to without TLS."""
    source: str = "urn:holdkit"
    """Who says so, in the envelope."""
    state: str | None = None
    """A directory of the server's own, outside of the database, that remembers what each hook was sent last. Without it only
    the running server does."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a server behaves; every value is a limit, and each has a default that is safe to expose."""

    open: bool = False
    """No key is asked for: whoever reaches the port is admin of the default tenant. For loopback only."""
    schema: str | None = None
    """PostgreSQL: the schema with the tables, if it is not `holdkit`. For a server that opens a URL; a kernel has its own."""
    pool_size: int | None = None
    """PostgreSQL: connections that the server may have. For a server that opens a URL too."""
    max_body: int = 256 * KIB
    """Bytes of a request's body."""
    max_depth: int = 40
    """Levels of nesting in a body: metadata may have 32 of its own."""
    max_headers: int = 16 * KIB
    """Bytes of all header lines together."""
    max_query: int = 8 * KIB
    """Bytes of a query string; a journal cursor has to fit."""
    max_page: int = 1_000
    max_batch: int = 1_000
    body_timeout: float = 10.0
    """Seconds within which a body must have arrived."""
    receive_timeout: float = 20.0
    """Seconds within which a whole request must have arrived, headers included; then the connection is cut."""
    max_connections: int = 2_000
    request_timeout: float = 30.0
    """Seconds after which an answer is given up, as unknown."""
    max_requests: int = 2_000
    """Requests in work at a time; more are turned away."""
    rate: float = 5_000.0
    """Requests a second that one key may make, in the long run."""
    burst: int = 10_000
    """Requests that one key may make at once."""
    max_streams: int = 200
    """Event streams open at a time."""
    stream_timeout: float = 10.0
    """Seconds that a stream's reader may take none of what it was sent."""
    summary_every: float = 0.25
    """Seconds between two summaries of one stream."""
    ping_every: float = 15.0
    sweep_every: float = 1.0
    """Seconds between two sweeps; 0 leaves sweeping to others."""
    key_refresh: float = 1.0
    """Seconds within which keys made or revoked by another process count here."""
    webhooks: Delivery = Delivery()
    stop_timeout: float = 10.0
    """Seconds that requests under way are given when the server stops."""


def secret_outside() -> bytes | None:
    """The server's own secret, if it is kept outside of the database: 16 to 64 bytes in HOLDKIT_SERVER_SECRET, the same for
    every server and wherever keys are made."""
    said = os.environ.get("HOLDKIT_SERVER_SECRET")
    return said.encode() if said else None
