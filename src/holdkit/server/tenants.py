"""Tenants: what is stored about each, and how it is shown. Pure functions."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ..core.model import Slot
from ..core.validation import invalid, text
from ..kernel.reports import StorageUsage
from ..wire.fields import at
from ..wire.tenants import Quota, TenantAnswer, TenantState, stored_rows

TENANTS: Final = "~tenant"
"""The kind of the records about tenants, in the default tenant. Their ids are names after an equals sign."""


class StoredTenant(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored record of a tenant."""

    name: str
    state: TenantState = "active"
    quota: Quota | None = None
    """Its own; None: that of the server's settings."""
    note: str | None = None
    """Why it was disabled."""
    changed_at: Slot | None = None


def check_tenant(name: object) -> str:
    """Check the name of a tenant and return it; refuse the default tenant's."""
    if name == "":
        raise invalid("tenant", "default_tenant", "is the default tenant, which is the operator's own")
    return text(name, "tenant", 64)


def tenant_answer(tenant: StoredTenant, active_keys: int, usage: StorageUsage | None = None) -> TenantAnswer:
    """Return a tenant as a document."""
    return TenantAnswer(
        name=tenant.name,
        state=tenant.state,
        keys=active_keys,
        quota=tenant.quota,
        note=tenant.note,
        changed_at=None if tenant.changed_at is None else at(tenant.changed_at),
        usage=None if usage is None else stored_rows(usage),
    )
