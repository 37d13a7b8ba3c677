"""API keys, and the caller that a key belongs to."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct

from .fields import Span

Scope: TypeAlias = Literal["read", "hold", "admin"]


class KeyInfo(Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    tenant: str
    scope: Scope
    name: str
    state: Literal["active", "expired", "revoked"]
    made_at: datetime | None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class NewKeyBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Create an API key for your own tenant."""

    name: str
    scope: Scope = "hold"
    ttl: Span | None = None


class RotateKeyBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """Give an API key a new secret."""

    grace: Span = 300


class KeyAnswer(Struct):
    """An API key that was just created or rotated: `key` is shown only this once."""

    info: KeyInfo
    key: str
    server_time: datetime


class KeyPage(Struct):
    """The API keys of your tenant."""

    items: list[KeyInfo]
    server_time: datetime


class WhoAmI(Struct, kw_only=True):
    """The caller that an API key belongs to, and what it may do."""

    id: str
    scope: str
    tenant: str
    operator: bool
    """Whether it may call routes that cover all tenants."""
    open: bool
    """Whether this server accepts requests without an API key."""
    server_time: datetime
