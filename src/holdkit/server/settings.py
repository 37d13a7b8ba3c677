"""The server's settings: those without a group, and a class for each of the 12 groups. `configuration.py` reads them from a file,
the environment and flags. `holdkit.Limits` has the limits of the data.

A description says what the setting is and, of a bound, whether it counts in each server process or in the whole database.
"""

from __future__ import annotations

import os
from typing import Annotated, Final

from msgspec import Meta, Struct

from ..engines.doctor import MIN_FREE
from .http_settings import Answers, Bytes, Connections, Proxy, Rates, Requests, Streams
from .webhook_settings import Count, Seconds, Webhooks

__all__ = [
    "Answers", "Connections", "Jobs", "Journal", "Metrics", "Proxy", "Rates", "Requests", "Settings", "Streams", "Tenants",
    "Upkeep", "Webhooks",
]  # fmt: skip

SECRET: Final = "secret"
"""The mark of a setting whose value is never shown."""


class Tenants(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one tenant may store."""

    quota_bytes: Annotated[
        Bytes | None,
        Meta(description="bytes that one tenant may store in the database, unless it has a quota of its own"),
    ] = None
    quota_rows: Annotated[
        Count | None,
        Meta(description="rows that one tenant may store in the database, unless it has a quota of its own"),
    ] = None
    table_share: Annotated[
        float,
        Meta(
            gt=0,
            le=1,
            description="part of `max_pools`, `max_holds` and `max_operations`, where they are bounded, that one tenant may have "
            "in the database; the default tenant may have all",
        ),
    ] = 0.5
    max_keys: Annotated[
        Count,
        Meta(
            description="active API keys of one tenant, in the database; as many revoked or expired ones are listed for 30 days"
        ),
    ] = 1_000


class Journal(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The journal: seals, archives, refused commands, free space."""

    seal_after: Annotated[
        Seconds | None,
        Meta(
            description="seconds after which the sweeper seals journal entries; 1,000 of a lane are sealed at once; if not set, "
            "nothing is sealed"
        ),
    ] = None
    seal_key: Annotated[
        str | None,
        Meta(description="Ed25519 private key that signs seals, a PEM file; if not set, they are not signed"),
    ] = None
    seal_anchor: Annotated[
        str | None, Meta(description="file to which the last seal of each lane is appended, outside the database")
    ] = None
    archive: Annotated[
        str | None,
        Meta(
            description="directory of the archive files, in which an erasure rewrites entries too; if not set, the server refuses to "
            "erase where entries were archived"
        ),
    ] = None
    audit_refusals: Annotated[
        bool, Meta(description="whether refused commands get an entry in the journal too, `command.refused`")
    ] = False
    min_free: Annotated[
        int, Meta(ge=0, description="free bytes of the data's disk below which nothing new is stored; 0: no such bound")
    ] = MIN_FREE


class Upkeep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the server does at intervals."""

    sweep_every: Annotated[Seconds, Meta(description="seconds between two sweeps; 0 turns the sweeper off")] = 1.0
    usage_every: Annotated[
        Seconds,
        Meta(description="seconds between two counts of what a tenant with a quota has stored, in each process"),
    ] = 60.0
    key_refresh: Annotated[
        Seconds,
        Meta(description="seconds after which API keys that another process created or revoked take effect here"),
    ] = 1.0


class Jobs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Background jobs, such as an erasure."""

    timeout: Annotated[Seconds, Meta(description="seconds after which a job is stopped")] = 3_600.0
    retention: Annotated[Seconds, Meta(description="seconds for which a process keeps an ended job")] = 3_600.0
    max: Annotated[Count, Meta(description="ended jobs that a process keeps, of all tenants")] = 100


class Metrics(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Metrics and traces."""

    pools: Annotated[
        tuple[str, ...],
        Meta(
            description="pools that `GET /metrics` has gauges of: ids, or beginnings of ids before a `*`; of a tenant `TENANT::POOL`; at "
            "most 100 entries and 500 pools, whose ids become labels"
        ),
    ] = ()
    opentelemetry: Annotated[
        bool,
        Meta(
            description="spans and instruments of OpenTelemetry, for the providers that the process has; needs "
            "`holdkit[opentelemetry]`"
        ),
    ] = False


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a server. The defaults are safe for a public server."""

    open: Annotated[
        bool,
        Meta(
            description="accept requests without an API key: every client is admin of the default tenant; on loopback only"
        ),
    ] = False
    schema: Annotated[
        str | None, Meta(description="schema of the tables on PostgreSQL, if it is not `holdkit`, when opening a URL")
    ] = None
    pool_size: Annotated[
        Annotated[int, Meta(ge=4, le=1_000)] | None,
        Meta(description="maximum number of PostgreSQL connections per process, when opening a URL"),
    ] = None
    notify_url: Annotated[
        str | None,
        Meta(
            description="second PostgreSQL URL to the same database, past a pooler, for notifications only; a secret if it has a "
            "password",
            extra={SECRET: True},
        ),
    ] = None
    drain: Annotated[
        Seconds,
        Meta(
            description="seconds after SIGTERM in which `/readyz` is 503 and everything is still served, so that a load balancer "
            "turns to other servers; then the server stops"
        ),
    ] = 0.0
    proxy: Proxy = Proxy()
    connections: Connections = Connections()
    requests: Requests = Requests()
    rates: Rates = Rates()
    answers: Answers = Answers()
    streams: Streams = Streams()
    tenants: Tenants = Tenants()
    journal: Journal = Journal()
    upkeep: Upkeep = Upkeep()
    jobs: Jobs = Jobs()
    metrics: Metrics = Metrics()
    webhooks: Webhooks = Webhooks()


def secret_from_environment() -> bytes | None:
    """Return the server's own secret, if it is kept outside the database: 16 to 64 bytes in HOLDKIT_SERVER_SECRET. All servers need
    the same one, and so does every process that creates API keys."""
    given = os.environ.get("HOLDKIT_SERVER_SECRET")
    return given.encode() if given else None
