"""The system itself: sweeps, limits, verification, tenants, the overview."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from ..core.audit_rows import Difference
from .fields import Body, Span
from .pools import PoolAnswer


class SweepBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Options of a sweep."""

    limit: Annotated[int, Meta(ge=1, le=10_000)] = 500


class ChangeLimitsBody(Body, kw_only=True):
    """New values for limits that are stored with the data."""

    limits: Annotated[
        dict[str, Span | None], Meta(description="new values by name; intervals in seconds, or as text such as 90d")
    ]
    if_version: int | None = None


class SweepAnswer(Struct):
    """The result of a sweep of all tenants."""

    expired: int
    holds: list[str]
    """The holds that it expired, in order of (deadline, id)."""
    tenants: list[str]
    """The tenant of each of them."""
    more: bool
    server_time: datetime


class LimitsAnswer(Struct):
    """The limits that are stored with the data; intervals in seconds."""

    limits: dict[str, float | int | None]
    version: int
    server_time: datetime


class VerifyAnswer(Struct):
    """Whether every row matches the journal."""

    ok: bool
    differences: list[str]
    found: list[Difference]
    """The same differences, with their parts as fields."""
    server_time: datetime


class TenantPage(Struct):
    """Names of tenants in order; `next` is the `after` of the next page."""

    items: list[str]
    next: str | None
    server_time: datetime


class Overview(Struct, kw_only=True):
    """Sums over all pools, and the fullest pools."""

    sums: dict[str, int]
    complete: bool
    fullest: list[PoolAnswer]
    server_time: datetime
