"""Keys: what one is, how it is spelled, how it is checked. Pure; stores and servers call it.

A key is `hk_<id>_<secret>`: a public id, and 256 random bits. Only a keyed hash of the secret is ever kept, so what is stored
can neither be used as a key nor, while the server's own secret is kept elsewhere, be forged. The id never changes: a key that
is rotated stays the same caller, and its retries stay the same retries. Nothing here puts a secret into a repr or a message.
"""

from __future__ import annotations

import base64
import hashlib
import re
from hmac import compare_digest
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from ..core.model import Slot
from ..core.validation import invalid, text
from ..kernel.normalise import datetime_of

Scope: TypeAlias = Literal["read", "hold", "admin"]
SCOPES: Final[tuple[Scope, ...]] = ("read", "hold", "admin")
"""In ascending order: each may do all that the ones before it may."""

_form: Final = re.compile(r"hk_([a-z2-7]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_DUMMY: Final = "0" * 64


class StoredKey(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A key as it is kept."""

    id: str
    tenant: str = ""
    scope: Scope
    name: str
    secret_hash: str
    made_at: Slot
    expires_at: Slot | None = None
    revoked_at: Slot | None = None
    old_hash: str | None = None
    """Of the secret before the last rotation."""
    old_until: Slot | None = None
    """When that one stops to count."""


class KeyInfo(Struct, frozen=True, kw_only=True):
    """A key as it is shown: nothing of its secret."""

    id: str
    tenant: str
    scope: Scope
    name: str
    state: Literal["active", "expired", "revoked"]
    made_at: str | None
    expires_at: str | None = None
    revoked_at: str | None = None


class NewKey(Struct, frozen=True):
    """A key just made or rotated. `text` is shown this one time; nobody can show it again."""

    info: KeyInfo
    text: str

    def __repr__(self) -> str:
        return f"<NewKey {self.info.id}>"


def mint_key(randomness: bytes) -> tuple[str, str]:
    """Id and secret out of 42 random bytes."""
    secret = base64.urlsafe_b64encode(randomness[10:42]).decode().rstrip("=")
    return base64.b32encode(randomness[:10]).decode().lower(), secret


def spell_key(id: str, secret: str) -> str:
    """The one text a caller presents."""
    return f"hk_{id}_{secret}"


def read_key(presented: str) -> tuple[str, str] | None:
    """Id and secret, or None if it has not the form of a key."""
    match = _form.fullmatch(presented)
    return None if match is None else (match[1], match[2])


def hash_secret(id: str, secret: str, pepper: bytes) -> str:
    """What is kept of a secret: bound to the key's id, keyed by the server's own secret."""
    hasher = hashlib.blake2b(secret.encode(), key=pepper, salt=id.encode()[:16], person=b"holdkit.key", digest_size=32)
    return hasher.hexdigest()


def admits(key: StoredKey | None, secret_hash: str, now: Slot) -> bool:
    """Whether this is the key's secret, and the key counts now. The same work is done for a key that does not exist."""
    stored = _DUMMY if key is None else key.secret_hash
    old = _DUMMY if key is None or key.old_hash is None else key.old_hash
    same, was = compare_digest(secret_hash, stored), compare_digest(secret_hash, old)
    if key is None:
        return False
    if was and key.old_until is not None and now < key.old_until:
        same = True
    return same and state_of(key, now) == "active"


def state_of(key: StoredKey, now: Slot) -> Literal["active", "expired", "revoked"]:
    """Whether it counts: at `now == expires_at` it does not."""
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "active"


def allows(held: Scope, needed: Scope) -> bool:
    """Whether a key of one scope may do what needs another."""
    return SCOPES.index(held) >= SCOPES.index(needed)


def shown(key: StoredKey, now: Slot) -> KeyInfo:
    """A key for people."""
    return KeyInfo(
        id=key.id,
        tenant=key.tenant,
        scope=key.scope,
        name=key.name,
        state=state_of(key, now),
        made_at=_time(key.made_at),
        expires_at=_time(key.expires_at),
        revoked_at=_time(key.revoked_at),
    )


def _time(slot: Slot | None) -> str | None:
    at = datetime_of(slot)
    return None if at is None else at.isoformat().replace("+00:00", "Z")


def check_scope(scope: object) -> Scope:
    """One of the three words."""
    for known in SCOPES:
        if scope == known:
            return known
    raise invalid("scope", "scope_unknown", f"must be one of {', '.join(SCOPES)}")


def check_name(name: object) -> str:
    """What people call it."""
    return text(name, "name", 128)
