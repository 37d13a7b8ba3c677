"""What happened over time: pools and one server, by intervals. Null stands for a time without data, never for zero."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..kernel.one_line import summary
from .fields import PoolId, Span, Time

Window = Annotated[Span, Meta(description="how far back, such as 15m, 1h, 24h or 7d; at most 366d")]


class PoolHistoryBody(Struct, forbid_unknown_fields=True):
    """Which pools, and how far back."""

    pools: Annotated[list[PoolId], Meta(max_length=100, description="1 to 100 pools")]
    window: Window = "1h"


class ServerHistoryQuery(Struct, forbid_unknown_fields=True):
    """How far back."""

    window: Window = "1h"


class PoolHistory(Struct, kw_only=True):
    """One pool: a value per interval. The counters are those at its end; the others count what happened in it."""

    pool: str
    total: list[int | None]
    held: list[int | None]
    consumed: list[int | None]
    peak: list[int | None]
    """The most units that were held and consumed together."""
    granted: list[int | None]
    """Holds that were granted units."""
    granted_units: list[int | None]
    confirmed_units: list[int | None]
    released_units: list[int | None]
    expired_units: list[int | None]
    refused: list[int | None]
    """Requests to this server that were refused, in the last six hours at most, since it started."""
    refused_units: list[int | None]
    """Units that these had asked for and did not get."""
    reasons: dict[str, int]
    """The refusals of the whole window that are known, by reason."""

    __repr__ = summary


class PoolHistories(Struct, kw_only=True):
    """Some pools over one window."""

    step: int
    """Seconds per interval."""
    at: list[Time]
    """When each interval begins."""
    pools: list[PoolHistory]
    recording: bool
    """Whether statistics are recorded: not where tables are distributed."""
    server_time: Time

    __repr__ = summary


class ServerHistory(Struct, kw_only=True):
    """The server that answers, over one window: the last six hours at most, since it started."""

    step: int
    at: list[Time]
    requests: list[int | None]
    errors: list[int | None]
    """Answers with a status from 500 on."""
    queue: list[int | None]
    """The longest queue that was seen in the interval."""
    p50: list[float | None]
    """Seconds: the upper bound of the bucket that contains this quantile of the interval's answers."""
    p90: list[float | None]
    p99: list[float | None]
    recording: bool
    server_time: Time

    __repr__ = summary
