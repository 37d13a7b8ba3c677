"""The settings of HTTP: proxy, connections, requests, rates, answers and streams.

A description says what the setting is and, of a bound, whether it counts in each server process or in the whole database.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from .webhook_settings import YEAR, Count, Seconds

KIB = 1024

Bytes: TypeAlias = Annotated[int, Meta(ge=1)]
Positive: TypeAlias = Annotated[float, Meta(gt=0, le=YEAR)]


class Proxy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The authenticating proxy in front of the server."""

    trusted: Annotated[
        tuple[str, ...],
        Meta(
            description="networks of authenticating proxies, such as 10.0.0.5/32: only from these the `proxy.actor_header` is believed; "
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


class Connections(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Connections, and the pace at which clients must send and read."""

    max: Annotated[
        Count | None,
        Meta(
            description="open connections per process, beyond which a new one is answered with 503; if not set: the limit of open files (RLIMIT_NOFILE) without 256 and "
            "`pool_size`, but at least half of it, and at most 4,000"
        ),
    ] = None
    keep_alive: Annotated[
        Positive,
        Meta(
            description="seconds for which a connection is kept between two requests; a proxy in front of the server must "
            "close its own sooner"
        ),
    ] = 75.0
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
    max_pipelined: Annotated[
        Count,
        Meta(
            description="requests of one connection that wait for the answers before them; then the connection is closed "
            "after these answers"
        ),
    ] = 16


class Requests(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests: how many, how large, and how long they take."""

    max: Annotated[
        Count | None,
        Meta(
            description="requests that a process works on at a time; more are refused with 503; if not set: three quarters of "
            "`connections.max`"
        ),
    ] = None
    max_of_tenant: Annotated[
        Count | None,
        Meta(
            description="of these, requests of one tenant; more are refused with 503, others are not affected; if not set: half of "
            "`requests.max`"
        ),
    ] = None
    timeout: Annotated[
        Seconds, Meta(description="seconds after which a request is answered with 504, effect unknown")
    ] = 30.0
    body_timeout: Annotated[Seconds, Meta(description="seconds within which a body must arrive")] = 10.0
    stop_timeout: Annotated[
        Seconds, Meta(description="seconds that running requests get to finish when the server stops")
    ] = 10.0
    max_body: Annotated[Bytes, Meta(description="bytes of a request body")] = 256 * KIB
    max_depth: Annotated[Count, Meta(description="levels of nesting in a body; metadata may have 32 of them")] = 40
    max_headers: Annotated[Bytes, Meta(description="bytes of all headers together")] = 16 * KIB
    max_query: Annotated[Bytes, Meta(description="bytes of a query string; a journal cursor must fit")] = 8 * KIB
    max_batch: Annotated[Count, Meta(description="commands of a batch")] = 1_000
    max_touched_legs: Annotated[
        Annotated[int, Meta(ge=1, le=1_000_000)],
        Meta(description="legs that a batch touches, those of the holds that it names included, when opening a URL"),
    ] = 10_000


class Rates(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Rates of API keys and tenants, and turns of costly requests."""

    key: Annotated[
        float,
        Meta(
            gt=0,
            description="tokens per second of one API key, on average, in each process: a command costs one, one more for each "
            "leg beyond its first, and one for each 4 KiB of the body",
        ),
    ] = 5_000.0
    key_burst: Annotated[Count, Meta(description="tokens of one API key in a burst, in each process")] = 10_000
    tenant: Annotated[
        float, Meta(gt=0, description="tokens per second of all API keys of one tenant together, in each process")
    ] = 10_000.0
    tenant_burst: Annotated[
        Count, Meta(description="tokens of all API keys of one tenant in a burst, in each process")
    ] = 20_000
    tenant_bytes: Annotated[
        Bytes, Meta(description="bytes of request bodies per second of one tenant, in each process")
    ] = 2_048 * KIB
    tenant_bytes_burst: Annotated[Bytes, Meta(description="bytes of bodies of one tenant in a burst")] = 65_536 * KIB
    refusal_delay: Annotated[Seconds, Meta(description="seconds before a request beyond its rate is refused")] = 0.1
    costly: Annotated[Count, Meta(description="tokens beyond which a request waits for a turn beside others")] = 64
    pace: Annotated[Seconds, Meta(description="pause after a costly request in times its duration; 0: no turns")] = 2.0
    max_costly: Annotated[Count, Meta(description="costly requests of a tenant that wait for a turn, per process")] = 8


class Answers(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pages and large answers."""

    page_bytes: Annotated[Bytes, Meta(description="bytes at which a page ends, about")] = 4_096 * KIB
    max_bytes: Annotated[
        Bytes, Meta(description="bytes of large answers under way in a process; reads beyond it are refused with 503")
    ] = 131_072 * KIB
    journal_scan: Annotated[
        Count,
        Meta(
            description="entries of all tenants that a request searches backwards, in all lanes together, for the last entries "
            "of its own tenant; beyond that it answers with fewer"
        ),
    ] = 50_000


class Streams(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Event streams and summaries."""

    max: Annotated[
        Count, Meta(description="open event streams per process; never more than half of `connections.max`")
    ] = 200
    max_feeds: Annotated[
        Count,
        Meta(
            description="tenants whose pools a process keeps in memory for summaries and overviews, one feed for each, "
            "up to 50,000 pools in one"
        ),
    ] = 100
    timeout: Annotated[
        Seconds, Meta(description="seconds after which a stream is dropped if its client reads nothing")
    ] = 10.0
    summary_every: Annotated[Seconds, Meta(description="seconds between two summaries of one stream")] = 0.25
    ping_every: Annotated[Positive, Meta(description="seconds between two signs of life in a quiet stream")] = 15.0
