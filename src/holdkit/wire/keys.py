"""API keys, and the caller that a key belongs to."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from ..kernel.one_line import MAX_NAMES, line, shortened, summary
from .fields import Body, Span, Time

Scope: TypeAlias = Literal["read", "hold", "admin"]


class KeyInfo(Struct, frozen=True, kw_only=True):
    """An API key without its secret."""

    id: str
    tenant: str
    scope: Scope
    name: str
    state: Literal["active", "expired", "revoked"]
    made_at: Time | None
    expires_at: Time | None = None
    revoked_at: Time | None = None
    used_at: Annotated[
        Time | None,
        Meta(
            description="when it was used last: on other servers up to a quarter of an hour later; null: not known to be used"
        ),
    ] = None
    pools: Annotated[
        tuple[str, ...], Meta(description="prefixes of the pools that it is limited to; empty: all pools")
    ] = ()
    verbs: Annotated[tuple[str, ...], Meta(description="the verbs that it is limited to; empty: all of its scope")] = ()

    __repr__ = summary


class NewKeyBody(Body, kw_only=True):
    """Create an API key for your own tenant."""

    name: str
    scope: Scope = "hold"
    ttl: Span | None = None
    pools: Annotated[
        list[str],
        Meta(description="limit it to pools that begin with one of these texts; not to claims, items or budgets"),
    ] = msgspec.field(default_factory=list)
    verbs: Annotated[list[str], Meta(description="limit it to these verbs, such as hold, confirm and read")] = (
        msgspec.field(default_factory=list)
    )


class RotateKeyBody(Body, kw_only=True):
    """Give an API key a new secret."""

    grace: Span = 300


class RevokeKeyBody(Body, kw_only=True):
    """Revoke an API key."""


class KeyAnswer(Struct):
    """An API key that was just created or rotated: `key` is shown only this once."""

    info: KeyInfo
    key: str
    server_time: Time

    def __repr__(self) -> str:
        return line("KeyAnswer", self.info.id, self.info.scope, shortened(self.info.name, MAX_NAMES))


class KeyPage(Struct):
    """The API keys of your tenant."""

    items: list[KeyInfo]
    server_time: Time


class WhoAmI(Struct, kw_only=True):
    """The caller that an API key belongs to, and what it may do."""

    id: str
    scope: Scope
    tenant: str
    operator: Annotated[bool, Meta(description="whether it may call routes that cover all tenants")]
    pools: Annotated[
        tuple[str, ...], Meta(description="prefixes of the pools that the key is limited to; empty: all pools")
    ]
    verbs: Annotated[tuple[str, ...], Meta(description="the verbs that the key is limited to; empty: all of its scope")]
    open: Annotated[bool, Meta(description="whether this server accepts requests without an API key")]
    server_time: Time
