"""The bounds of a process that follow from its limit of open files, where the settings leave them open."""

from __future__ import annotations

import resource

from msgspec import Struct

from .settings import Settings


class Bounds(Struct, frozen=True):
    """How many connections, requests and streams a process has at a time."""

    connections: int
    requests: int
    requests_of_tenant: int
    streams: int


MOST_CONNECTIONS = 4_000
RESERVED_FILES = 256
"""Descriptors for everything but connections: the database, webhook deliveries, files, what Python itself opens."""


def bounds_of(settings: Settings, files: int | None = None) -> Bounds:
    """Return the bounds in force: those that are set, and for the others what the limit of open `files` (RLIMIT_NOFILE) allows.

    connections: files - 256 - pool_size, but at least half of the files, and at most 4,000. requests: three quarters of the
    connections, so that a client that is one too many still gets a connection, and on it a 503. requests_of_tenant: half of the requests."""
    limits, requests = settings.connections, settings.requests
    if files is None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    most = MOST_CONNECTIONS
    if files != resource.RLIM_INFINITY:
        most = min(most, max(files - RESERVED_FILES - (settings.pool_size or 0), files // 2))
    connections = limits.max or most
    most_requests = requests.max or max(1, connections * 3 // 4)
    return Bounds(
        connections,
        most_requests,
        requests.max_of_tenant or max(1, most_requests // 2),
        min(settings.streams.max, max(1, connections // 2)),
    )


def raise_file_limit(settings: Settings) -> None:
    """Raise this process's limit of open files to what its connections need, at most to the hard limit."""
    wanted = (settings.connections.max or MOST_CONNECTIONS) + RESERVED_FILES + (settings.pool_size or 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft not in (resource.RLIM_INFINITY, wanted) and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
