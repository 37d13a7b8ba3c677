"""Tenants: what they have stored, what they may store, and whether they are admitted."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from ..kernel.one_line import summary
from ..kernel.reports import StorageUsage
from .fields import Body, Time
from .system import Job

TenantState: TypeAlias = Literal["active", "disabled", "deleting"]
Most: TypeAlias = Annotated[int, Meta(ge=1, le=2**53 - 1)]


class Quota(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a tenant may store; null: no bound."""

    bytes: Most | None = None
    rows: Most | None = None


class StoredRows(Struct, frozen=True, kw_only=True):
    """What a tenant has stored."""

    pools: int
    holds: int
    live_holds: int
    """Of these, those that have not ended."""
    operations: int
    """Answers that are kept for retries."""
    records: int
    entries: int
    """In the journal."""
    rows: int
    """All of these together."""
    bytes: int
    """The text of all columns, and 100 for each row."""
    complete: bool
    """Whether the whole journal has been counted yet."""

    __repr__ = summary


class StorageAnswer(Struct, kw_only=True):
    """What your tenant has stored, and what it may store."""

    usage: StoredRows
    quota: Quota
    server_time: Time


class TenantAnswer(Struct, kw_only=True):
    """One tenant."""

    name: str
    state: TenantState
    keys: int
    """Active API keys."""
    quota: Quota | None = None
    """Its own; null: that of the server's settings."""
    note: str | None = None
    """Why it was disabled."""
    changed_at: Time | None = None
    """When an operator last changed its state or its quota."""
    usage: StoredRows | None = None
    """Null in a list that was not asked for it, or that had no time to count it."""
    server_time: Time | None = None

    __repr__ = summary


class TenantPage(Struct):
    """Tenants in order of name; `next` is the `after` of the next page."""

    items: list[TenantAnswer]
    next: str | None
    server_time: Time


class TenantsQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which tenants are listed."""

    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    usage: bool = False
    """Count what each has stored."""


class ChangeTenant(Body, kw_only=True):
    """Disable or enable a tenant; `reason` becomes its note."""


class ChangeQuota(Body, kw_only=True):
    """Give a tenant a quota of its own."""

    quota: Quota | None
    """Null: that of the server's settings."""


class DeleteTenant(Body, kw_only=True):
    """Delete a tenant with all that it has stored."""

    confirm: str
    """The tenant's name once more."""


class DeletedAnswer(Struct):
    """What a deletion has ended and removed."""

    tenant: str
    holds: int = 0
    """Released or returned."""
    pools: int = 0
    records: int = 0
    keys: int = 0

    @property
    def all(self) -> int:
        """Everything together."""
        return self.holds + self.pools + self.records + self.keys

    __repr__ = summary


class DeletionJob(Job[DeletedAnswer], kw_only=True):
    """A job that deletes a tenant."""


def stored_rows(usage: StorageUsage) -> StoredRows:
    """Return the document of a usage."""
    return StoredRows(
        pools=usage.pools,
        holds=usage.holds,
        live_holds=usage.live_holds,
        operations=usage.operations,
        records=usage.records,
        entries=usage.entries,
        rows=usage.rows,
        bytes=usage.bytes,
        complete=usage.complete,
    )


def usage_from(rows: StoredRows) -> StorageUsage:
    """Return the usage of a document."""
    return StorageUsage(
        pools=rows.pools,
        holds=rows.holds,
        live_holds=rows.live_holds,
        operations=rows.operations,
        records=rows.records,
        entries=rows.entries,
        bytes=rows.bytes,
        complete=rows.complete,
    )
