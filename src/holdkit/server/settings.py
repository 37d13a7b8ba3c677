"""The server's settings: all of its limits. `configuration.py` reads them from a file, the environment and flags, and
`holdkit.Limits` has the limits of the data.

A description says what the setting is and, of a bound, whether it counts in each server process or in the whole database.
"""

from __future__ import annotations

import os
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Struct

from ..engines.doctor import MIN_FREE
from .delivery import Count, Delivery, Seconds

__all__ = ["Delivery", "Settings", "secret_from_environment"]

KIB = 1024
SECRET: Final = "secret"
"""The mark of a setting whose value is never shown."""

Bytes: TypeAlias = Annotated[int, Meta(ge=1)]
Positive: TypeAlias = Annotated[float, Meta(gt=0)]


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
    max_body: Annotated[Bytes, Meta(description="bytes of a request body")] = 256 * KIB
    max_depth: Annotated[Count, Meta(description="levels of nesting in a body; metadata may have 32 of them")] = 40
    max_headers: Annotated[Bytes, Meta(description="bytes of all headers together")] = 16 * KIB
    max_query: Annotated[Bytes, Meta(description="bytes of a query string; a journal cursor must fit")] = 8 * KIB
    max_page: Annotated[Count, Meta(description="entries of a page")] = 1_000
    page_bytes: Annotated[Bytes, Meta(description="bytes at which a page ends, about")] = 4_096 * KIB
    answer_bytes: Annotated[
        Bytes, Meta(description="bytes of large answers under way in a process; reads beyond it are refused with 503")
    ] = 131_072 * KIB
    max_batch: Annotated[Count, Meta(description="commands of a batch")] = 1_000
    body_timeout: Annotated[Seconds, Meta(description="seconds within which a body must arrive")] = 10.0
    receive_timeout: Annotated[
        Seconds,
        Meta(
            description="seconds within which a whole request must arrive, headers included; then the connection is closed"
        ),
    ] = 20.0
    write_timeout: Annotated[
        Positive,
        Meta(
            description="seconds within which a client must take 16 KiB of its answer, or the rest of it; then the connection "
            "is closed"
        ),
    ] = 20.0
    keep_alive: Annotated[
        Positive,
        Meta(
            description="seconds for which a connection is kept between two requests; a proxy in front of the server must "
            "close its own sooner"
        ),
    ] = 75.0
    handshake_timeout: Annotated[
        Positive,
        Meta(description="seconds within which a TLS client must send its first byte, and then finish its handshake"),
    ] = 5.0
    max_handshakes: Annotated[
        Count, Meta(description="TLS handshakes at a time per process; one more takes the slot of the oldest")
    ] = 250
    max_pipelined: Annotated[
        Count,
        Meta(
            description="requests of one connection that wait for the answers before them; then the connection is closed "
            "after these answers"
        ),
    ] = 16
    max_connections: Annotated[
        Count | None,
        Meta(
            description="open connections per process; if not set: the limit of open files (RLIMIT_NOFILE) without 256 and "
            "`pool_size`, but at least half of it, and at most 4,000"
        ),
    ] = None
    max_connections_per_address: Annotated[
        Count | None,
        Meta(
            description="open connections per process of one client address (of one /64 network with IPv6); if not set: half of "
            "`max_connections`, and no limit for loopback addresses and behind a proxy"
        ),
    ] = None
    request_timeout: Annotated[
        Seconds, Meta(description="seconds after which a request is answered with 504, effect unknown")
    ] = 30.0
    max_requests: Annotated[
        Count | None,
        Meta(
            description="requests that a process works on at a time; more are refused with 503; if not set: three quarters of "
            "`max_connections`"
        ),
    ] = None
    max_requests_of_tenant: Annotated[
        Count | None,
        Meta(
            description="of these, requests of one tenant; more are refused with 503, others are not affected; if not set: half of "
            "`max_requests`"
        ),
    ] = None
    max_touched_legs: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        Meta(description="legs that a batch touches, those of the holds that it names included, when opening a URL"),
    ] = 10_000
    rate: Annotated[
        float,
        Meta(
            gt=0,
            description="tokens per second of one API key, on average, in each process: a command costs one, one more for each "
            "leg beyond its first, and one for each 4 KiB of the body",
        ),
    ] = 5_000.0
    burst: Annotated[Count, Meta(description="tokens of one API key in a burst, in each process")] = 10_000
    tenant_rate: Annotated[
        float, Meta(gt=0, description="tokens per second of all API keys of one tenant together, in each process")
    ] = 10_000.0
    tenant_burst: Annotated[
        Count, Meta(description="tokens of all API keys of one tenant in a burst, in each process")
    ] = 20_000
    tenant_byte_rate: Annotated[
        Bytes, Meta(description="bytes of request bodies per second of one tenant, in each process")
    ] = 2_048 * KIB
    tenant_byte_burst: Annotated[Bytes, Meta(description="bytes of bodies of one tenant in a burst")] = 65_536 * KIB
    refusal_delay: Annotated[Seconds, Meta(description="seconds before a request beyond its rate is refused")] = 0.1
    costly: Annotated[Count, Meta(description="tokens beyond which a request waits for a turn beside others")] = 64
    pace: Annotated[Seconds, Meta(description="pause after a costly request in times its duration; 0: no turns")] = 2.0
    max_costly: Annotated[Count, Meta(description="costly requests of a tenant that wait for a turn, per process")] = 8
    trusted_proxies: Annotated[
        tuple[str, ...],
        Meta(
            description="networks of authenticating proxies, such as 10.0.0.5/32: only from these the `actor_header` is believed; "
            "none by default"
        ),
    ] = ()
    actor_header: Annotated[
        str,
        Meta(
            min_length=1,
            description="header in which a trusted proxy names the person that it has authenticated: the actor of the request",
        ),
    ] = "x-forwarded-user"
    journal_scan: Annotated[
        Count,
        Meta(
            description="entries of all tenants that a request searches backwards, in all lanes together, for the last entries "
            "of its own tenant; beyond that it answers with fewer"
        ),
    ] = 50_000
    max_streams: Annotated[
        Count, Meta(description="open event streams per process; never more than half of `max_connections`")
    ] = 200
    max_feeds: Annotated[
        Count,
        Meta(
            description="tenants whose pools a process keeps in memory for summaries and overviews, one feed for each, "
            "up to 50,000 pools in one"
        ),
    ] = 100
    stream_timeout: Annotated[
        Seconds, Meta(description="seconds after which a stream is dropped if its client reads nothing")
    ] = 10.0
    summary_every: Annotated[Seconds, Meta(description="seconds between two summaries of one stream")] = 0.25
    ping_every: Annotated[Positive, Meta(description="seconds between two signs of life in a quiet stream")] = 15.0
    sweep_every: Annotated[Seconds, Meta(description="seconds between two sweeps; 0 turns the sweeper off")] = 1.0
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
    metric_pools: Annotated[
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
    rollup_every: Annotated[
        Seconds,
        Meta(
            description="seconds between two writes of statistics for the dashboard's plots, which have gaps if it is more than 10; 0 turns them off"
        ),
    ] = 10.0
    key_refresh: Annotated[
        Seconds,
        Meta(description="seconds after which API keys that another process created or revoked take effect here"),
    ] = 1.0
    max_keys: Annotated[
        Count,
        Meta(
            description="active API keys of one tenant, in the database; as many revoked or expired ones are listed for 30 days"
        ),
    ] = 1_000
    job_timeout: Annotated[Seconds, Meta(description="seconds after which a job is stopped")] = 3_600.0
    job_retention: Annotated[Seconds, Meta(description="seconds for which a process keeps an ended job")] = 3_600.0
    max_jobs: Annotated[Count, Meta(description="ended jobs that a process keeps, of all tenants")] = 100
    min_free: Annotated[
        int, Meta(ge=0, description="free bytes of the data's disk below which nothing new is stored; 0: no such bound")
    ] = MIN_FREE
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
    usage_every: Annotated[
        Seconds,
        Meta(description="seconds between two counts of what a tenant with a quota has stored, in each process"),
    ] = 60.0
    webhooks: Delivery = Delivery()
    stop_timeout: Annotated[
        Seconds, Meta(description="seconds that running requests get to finish when the server stops")
    ] = 10.0
    drain: Annotated[
        Seconds,
        Meta(
            description="seconds after SIGTERM in which `/readyz` is 503 and everything is still served, so that a load balancer "
            "turns to other servers; then the server stops"
        ),
    ] = 0.0
    certificate_check: Annotated[
        Seconds,
        Meta(
            description="seconds between two looks at the certificate's files; changed ones are read anew. 0: only on SIGHUP"
        ),
    ] = 10.0
    hsts: Annotated[
        int,
        Meta(
            ge=0,
            description="`max-age` in seconds of the Strict-Transport-Security header, sent if the server itself has a "
            "certificate; 0 sends none",
        ),
    ] = 31_536_000


def secret_from_environment() -> bytes | None:
    """The server's own secret, if it is kept outside the database: 16 to 64 bytes in HOLDKIT_SERVER_SECRET. It must be the same
    for all servers, and wherever API keys are created."""
    given = os.environ.get("HOLDKIT_SERVER_SECRET")
    return given.encode() if given else None
