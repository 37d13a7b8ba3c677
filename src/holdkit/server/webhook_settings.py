"""The settings of webhooks: how they are delivered, and which bounds keep one tenant's from delaying those of others.

A description says what the setting is and, of a bound, whether it counts in each server process or in the whole database.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

Count: TypeAlias = Annotated[int, Meta(ge=1)]
YEAR = 31_536_000.0
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=YEAR)]


class Webhooks(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How webhooks are delivered."""

    pauses: Annotated[
        tuple[Seconds, ...],
        Meta(description="seconds between the attempts at a delivery; after the last one it is parked"),
    ] = (1.0, 5.0, 30.0, 120.0, 600.0)
    seconds: Annotated[Seconds, Meta(description="timeout of one attempt, all of the following included")] = 10.0
    lookup_timeout: Annotated[Seconds, Meta(description="seconds to resolve a receiver's host name")] = 3.0
    connect_timeout: Annotated[Seconds, Meta(description="seconds to connect to a receiver, TLS included")] = 5.0
    send_timeout: Annotated[Seconds, Meta(description="seconds within which a receiver must read the request")] = 5.0
    attempts: Annotated[
        Count,
        Meta(
            description="attempts at a time per process, this many each for first attempts, retries, and replays with tests"
        ),
    ] = 64
    tenant_attempts: Annotated[Count, Meta(description="how many of them one tenant may have")] = 8
    receiver_attempts: Annotated[
        Count, Meta(description="how many of them one tenant may have to one receiver, a host and port")
    ] = 4
    lookup_threads: Annotated[Count, Meta(description="host names being resolved at a time per process")] = 32
    tenant_lookup_threads: Annotated[
        Count, Meta(description="how many of them may be one tenant's; a lookup that hangs counts until it returns")
    ] = 2
    tenant_hooks: Annotated[int, Meta(ge=1, le=1_000, description="webhooks of one tenant in the database")] = 50
    max_parked: Annotated[
        Count, Meta(description="parked deliveries of one webhook in the database; then the webhook is stopped")
    ] = 1_000
    max_log: Annotated[
        int, Meta(ge=1, le=200, description="attempts in the delivery log of one webhook in the database")
    ] = 50
    log_every: Annotated[
        Seconds,
        Meta(
            description="seconds between two writes of successful attempts to a webhook's log; failed ones are written at once"
        ),
    ] = 60.0
    allowed: Annotated[
        frozenset[str], Meta(description="hosts that may have private addresses, and may be called without TLS")
    ] = frozenset()
    networks: Annotated[
        frozenset[str],
        Meta(
            description="networks such as 10.1.0.0/16 whose addresses may be called although private, also without TLS"
        ),
    ] = frozenset()
    source: Annotated[str, Meta(description="`source` of the CloudEvents envelope")] = "urn:holdkit"
    state: Annotated[
        str | None,
        Meta(
            description="directory outside the database that records what each webhook was sent last; without it, only the "
            "running process knows"
        ),
    ] = None
