"""All tenants at once: for whoever runs the whole, and never for a kernel that is bound to one of them."""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeAlias

from ..core.validation import invalid


class _AllTenants(Enum):
    """One value, which is no name: a tenant may be called anything."""

    ALL = "all tenants"

    def __repr__(self) -> str:
        return "holdkit.ALL"


ALL: Final = _AllTenants.ALL
"""`follow(tenant=ALL)`, `journal(tenant=ALL)` and `on(…, tenant=ALL)` tell of every tenant; `JournalEntry.tenant` says whose."""

Tenants: TypeAlias = _AllTenants | None
"""ALL, or None: one's own."""


def of_all(asked: object) -> bool:
    """Whether all tenants were asked for."""
    if asked is not None and asked is not ALL:
        raise invalid(
            "tenant", "tenant_unknown", "must be holdkit.ALL, or left out: hk.tenant(…) speaks for another one"
        )
    return asked is ALL


def whose(asked: object, own: str) -> str | None:
    """The tenant whose entries are read, or None: of all, which only a kernel without a tenant may."""
    if not of_all(asked):
        return own
    unbound(own)
    return None


def unbound(own: str) -> None:
    """Refuse a kernel of one tenant."""
    if own:
        raise invalid("tenant", "tenant_bound", "this tells of all tenants: use the kernel that connect gave you")
