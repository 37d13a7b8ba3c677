"""What a server says about itself: health, statistics, sums over pools, and the events of its streams."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ..core.outcomes import Survives
from ..engines.durability import Durability
from ..engines.lock_times import LockTimes
from .fields import Time
from .pools import PoolAnswer


class Live(Struct):
    """The process is alive."""

    status: str


DiskState: TypeAlias = Literal["ok", "low", "full"]


class Disk(Struct):
    """The free space of the data's disk, in bytes."""

    state: Annotated[
        DiskState,
        Meta(description="low: less than 5 % is free; full: less than `min_free` is, and nothing new is stored"),
    ]
    free: int
    total: int
    min_free: int


class Ready(Struct):
    """The server is ready."""

    status: str
    durability: Survives
    clock_lag: float
    disk: Annotated[
        DiskState | None,
        Meta(description="low: less than 5 % is free; full: nothing new is stored; null: the disk is not watched"),
    ]


class Latency(Struct):
    """Seconds from a request to its answer: upper bounds of the buckets that contain these quantiles."""

    p50: float
    p90: float
    p99: float


class Batches(Struct):
    """The transactions of this process."""

    count: int
    commands: int
    largest: int
    sizes: list[int]


class Guards(Struct):
    """Batches that the database itself decided, by a guard, in one round trip; only PostgreSQL has them."""

    batches: int
    commands: int
    passed: int
    """Commands that passed the guard. The others took the ordinary way in the same call."""
    returned: int
    """Units of expired holds that these batches returned, by number of legs."""
    misses: dict[str, int]
    """Commands that did not pass, by cause."""


class Sweeper(Struct):
    """The sweeper of this process."""

    running: bool
    sweeps: int
    expired: int
    lag: float


class Deliveries(Struct):
    """Webhook deliveries of this process."""

    delivered: int
    failed: int
    parked: int
    outcomes: dict[str, int]
    """Attempts by outcome."""
    attempts: int
    """Attempts under way."""
    waiting: int
    """Attempts that wait for a slot."""
    lookups: int
    """Host names being resolved."""


class Connections(Struct):
    """Connections of this process; the last two count since its start."""

    open: int
    limit: int
    refused: int
    """Answered with 503, because there were too many."""
    dropped: int
    """Closed because their client read nothing."""


class Stats(Struct, kw_only=True):
    """Statistics since the server started."""

    since: Time
    requests: int
    done: dict[str, int]
    refused: dict[str, int]
    latency: Latency
    batches: Batches
    lock_times: LockTimes
    """On PostgreSQL: how long pools were locked. Elsewhere nothing is counted."""
    guards: Guards
    queue: int
    durability: Durability
    clock_lag: float
    sweeper: Sweeper
    webhooks: Deliveries
    streams: int
    in_work: int
    full_quotas: int
    """Tenants whose storage quota is full, as far as this process knows."""
    disk: Disk | None
    """None if the disk is not watched: PostgreSQL on another machine, or data in memory."""
    connections: Connections | None
    """None if the application is mounted in another server."""
    server_time: Time


class Sums(Struct):
    """Sums over all pools; `over` and `full` are numbers of pools. Units are those of pools that are below no other: a pool has the
    units of those below it, too."""

    pools: int
    total: int
    held: int
    consumed: int
    available: int
    over: int
    full: int


class Overview(Struct, kw_only=True):
    """Sums over all pools, and the fullest pools."""

    sums: Sums
    complete: bool
    fullest: list[PoolAnswer]
    server_time: Time


class Hello(Struct, kw_only=True):
    """The first event of a stream of entries."""

    server_time: Time
    generation: str


class Summary(Struct, kw_only=True):
    """An event of a stream of summaries: what changed since the one before."""

    sums: Sums
    complete: bool
    pools: list[PoolAnswer]
    removed: list[str]
    actions: dict[str, int]
    reset: bool
    server_time: Time


class Bye(Struct, kw_only=True, omit_defaults=True):
    """The last event of a stream that the server ends."""

    reason: Annotated[
        str | None, Meta(description="why, if the stream may not go on: the API key no longer counts")
    ] = None
