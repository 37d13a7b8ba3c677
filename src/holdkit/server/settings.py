"""The server's settings: all of its limits, and its secret. `holdkit.Limits` has the limits of the data."""

from __future__ import annotations

import os

from msgspec import Struct

KIB = 1024


class Delivery(Struct, frozen=True, kw_only=True):
    """How webhooks are delivered."""

    pauses: tuple[float, ...] = (1.0, 5.0, 30.0, 120.0, 600.0)
    """Seconds between attempts; after the last one the delivery is parked."""
    seconds: float = 10.0
    """The timeout of one attempt."""
    allowed: frozenset[str] = frozenset()
    """Hosts that may have private addresses, and may be called without TLS."""
    source: str = "urn:holdkit"
    """The `source` of the CloudEvents envelope."""
    state: str | None = None
    """A directory outside the database that records what each webhook was sent last. Without it, only the running process
    knows."""


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a server. The defaults are safe for a public server."""

    open: bool = False
    """Accept requests without an API key: every client is admin of the default tenant. On loopback only."""
    schema: str | None = None
    """PostgreSQL: the schema of the tables, if it is not `holdkit`. Used when the server opens a URL."""
    pool_size: int | None = None
    """PostgreSQL: the maximum number of connections. Used when the server opens a URL."""
    max_body: int = 256 * KIB
    """Bytes of a request body."""
    max_depth: int = 40
    """Levels of nesting in a body; metadata may have 32 of them."""
    max_headers: int = 16 * KIB
    """Bytes of all headers together."""
    max_query: int = 8 * KIB
    """Bytes of a query string; a journal cursor must fit."""
    max_page: int = 1_000
    max_batch: int = 1_000
    body_timeout: float = 10.0
    """Seconds within which a body must arrive."""
    receive_timeout: float = 20.0
    """Seconds within which a whole request must arrive, headers included; then the connection is closed."""
    max_connections: int = 2_000
    request_timeout: float = 30.0
    """Seconds after which a request is answered with 504, effect unknown."""
    max_requests: int = 2_000
    """Requests processed at a time; more are refused with 503."""
    rate: float = 5_000.0
    """Requests per second of one API key, on average."""
    burst: int = 10_000
    """Requests of one API key in a burst."""
    max_streams: int = 200
    """Open event streams at a time."""
    stream_timeout: float = 10.0
    """Seconds after which a stream is dropped if its client reads nothing."""
    summary_every: float = 0.25
    """Seconds between two summaries of one stream."""
    ping_every: float = 15.0
    sweep_every: float = 1.0
    """Seconds between two sweeps; 0 turns the sweeper off."""
    key_refresh: float = 1.0
    """Seconds after which API keys that another process created or revoked take effect here."""
    webhooks: Delivery = Delivery()
    stop_timeout: float = 10.0
    """Seconds that running requests get to finish when the server stops."""


def secret_from_environment() -> bytes | None:
    """The server's own secret, if it is kept outside the database: 16 to 64 bytes in HOLDKIT_SERVER_SECRET. It must be the same
    for all servers, and wherever API keys are created."""
    given = os.environ.get("HOLDKIT_SERVER_SECRET")
    return given.encode() if given else None
