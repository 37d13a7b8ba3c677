"""API keys: their format, their hashes and their checks. Pure functions.

A key is `hk_<id>_<secret>`: a public id and 256 random bits. Only a keyed hash of the secret is stored, so what is stored
cannot be used as a key, nor be forged while the server's own secret is kept elsewhere. The id never changes: a rotated key
remains the same caller, so its retries are still recognised. No secret appears in a repr or a message.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from hmac import compare_digest
from typing import Final, Literal

from msgspec import Struct

from ..core.commands import COMMANDS
from ..core.model import DAY, Slot
from ..core.validation import invalid, text
from ..wire.batches import DOCUMENTS
from ..wire.fields import at
from ..wire.keys import KeyInfo, Scope

SCOPES: Final[tuple[Scope, ...]] = ("read", "hold", "admin")
"""In ascending order: each includes the ones before it."""

VERBS: Final[dict[str, Scope]] = {
    "read": "read",
    **dict.fromkeys((verb for verb in DOCUMENTS if COMMANDS[verb].names != "pool"), "hold"),
    **dict.fromkeys(("put_record", "move_cursor"), "hold"),
    **dict.fromkeys((verb for verb in DOCUMENTS if COMMANDS[verb].names == "pool"), "admin"),
}
"""What a key may be limited to, and the scope that each of them needs."""
MAX_PREFIXES: Final = 20
"""Prefixes of pools that a key may be limited to."""
MAX_KEYS: Final = 1_000
"""Active keys of one tenant, unless a server's settings say otherwise."""
KEPT_ENDED: Final[Slot] = 30 * DAY
"""How long a revoked or expired key is listed before it is removed."""

_form: Final = re.compile(r"hk_([a-z2-7]{16})_([A-Za-z0-9_-]{43})", re.ASCII)
_DUMMY: Final = "0" * 64


class StoredKey(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An API key as it is stored."""

    id: str
    tenant: str = ""
    scope: Scope
    name: str
    secret_hash: str
    made_at: Slot
    expires_at: Slot | None = None
    revoked_at: Slot | None = None
    old_hash: str | None = None
    """The hash of the secret before the last rotation."""
    old_until: Slot | None = None
    """When the old secret expires."""
    pools: tuple[str, ...] = ()
    """Prefixes of the pools that it is limited to; empty: all pools."""
    verbs: tuple[str, ...] = ()
    """The verbs that it is limited to; empty: all that its scope allows."""
    made_under: str | None = None
    """The operation id of the request that created it."""
    rotated_under: str | None = None
    """The operation id of the request that rotated it last."""

    @property
    def limited(self) -> bool:
        """Return whether the key is limited to pools or verbs."""
        return bool(self.pools or self.verbs)


class NewKey(Struct, frozen=True):
    """An API key that was just created or rotated. `text` is shown only this once."""

    info: KeyInfo
    text: str
    replayed: bool = False
    """Whether it was created or rotated by an earlier call under the same operation id. Its text is a new one."""

    def __repr__(self) -> str:
        return f"<NewKey {self.info.id}>"


def mint_key(randomness: bytes) -> tuple[str, str]:
    """Make an id and a secret from 42 random bytes."""
    secret = base64.urlsafe_b64encode(randomness[10:42]).decode().rstrip("=")
    return base64.b32encode(randomness[:10]).decode().lower(), secret


def id_under(op: str, tenant: str) -> str:
    """Return the id of the key that is created under an operation id, so that a retry finds it."""
    digest = hashlib.blake2b(f"{tenant}\0{op}".encode(), digest_size=10, person=b"holdkit.key.op").digest()
    return base64.b32encode(digest).decode().lower()


def format_key(id: str, secret: str) -> str:
    """Return the text that a caller presents."""
    return f"hk_{id}_{secret}"


def read_key(presented: str) -> tuple[str, str] | None:
    """Read id and secret from a key's text; None if it does not have the form of a key."""
    match = _form.fullmatch(presented)
    return None if match is None else (match[1], match[2])


def hash_secret(id: str, secret: str, pepper: bytes) -> str:
    """Return the stored hash of a secret: bound to the key's id, and keyed by the server's own secret."""
    hasher = hashlib.blake2b(secret.encode(), key=pepper, salt=id.encode()[:16], person=b"holdkit.key", digest_size=32)
    return hasher.hexdigest()


def admits(key: StoredKey | None, secret_hash: str, now: Slot) -> bool:
    """Return whether the secret is right and the key is active. An unknown key costs equal work."""
    stored = _DUMMY if key is None else key.secret_hash
    old = _DUMMY if key is None or key.old_hash is None else key.old_hash
    same, old_matches = compare_digest(secret_hash, stored), compare_digest(secret_hash, old)
    if key is None:
        return False
    if old_matches and key.old_until is not None and now < key.old_until:
        same = True
    return same and state_of(key, now) == "active"


def state_of(key: StoredKey, now: Slot) -> Literal["active", "expired", "revoked"]:
    """Return the state of a key; it is expired from `now == expires_at` on."""
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "active"


def ended_at(key: StoredKey, now: Slot) -> Slot | None:
    """Return when a key was revoked or expired; None while it is active."""
    if key.revoked_at is not None:
        return key.revoked_at
    return key.expires_at if key.expires_at is not None and key.expires_at <= now else None


def to_remove(keys: Iterable[StoredKey], most: int, now: Slot) -> list[str]:
    """Return the ids of one tenant's ended keys to remove: those that ended more than `KEPT_ENDED` ago, and all but the `most` that
    ended last. Otherwise a tenant that creates and revokes keys in a loop would fill the store."""
    ended = sorted(((at, key.id) for key in keys if (at := ended_at(key, now)) is not None), reverse=True)
    return [id for place, (at, id) in enumerate(ended) if place >= most or at + KEPT_ENDED <= now]


def allows(held: Scope, needed: Scope) -> bool:
    """Return whether one scope includes another."""
    return SCOPES.index(held) >= SCOPES.index(needed)


def shown(key: StoredKey, now: Slot, used: Slot | None = None) -> KeyInfo:
    """Return an API key without its secret."""
    return KeyInfo(
        id=key.id,
        tenant=key.tenant,
        scope=key.scope,
        name=key.name,
        state=state_of(key, now),
        made_at=at(key.made_at),
        pools=key.pools,
        verbs=key.verbs,
        expires_at=at(key.expires_at),
        revoked_at=at(key.revoked_at),
        used_at=at(used),
    )


def check_scope(scope: object) -> Scope:
    """Check that it is a known scope."""
    for known in SCOPES:
        if scope == known:
            return known
    raise invalid("scope", "scope_unknown", f"must be one of {', '.join(SCOPES)}")


def check_name(name: object) -> str:
    """Check the name of a key."""
    return text(name, "name", 128)


def check_pools(pools: Iterable[str]) -> tuple[str, ...]:
    """Check the prefixes of pools that a key is limited to."""
    found = tuple(dict.fromkeys(text(prefix, "pools", 512) for prefix in pools))
    if len(found) > MAX_PREFIXES:
        raise invalid("pools", "pools_too_many", f"at most {MAX_PREFIXES} prefixes are allowed")
    if any(prefix.startswith("~") for prefix in found):
        raise invalid("pools", "pools_reserved", "pools that begin with ~ are reserved: a limited key cannot use them")
    return found


def check_verbs(verbs: Iterable[str], scope: Scope) -> tuple[str, ...]:
    """Check the verbs that a key is limited to: known, and within its scope."""
    found = tuple(dict.fromkeys(verbs))
    for verb in found:
        if verb not in VERBS:
            raise invalid("verbs", "verb_unknown", f"must be some of {', '.join(VERBS)}")
        if not allows(scope, VERBS[verb]):
            raise invalid("verbs", "verb_beyond_scope", f"the verb {verb} needs scope {VERBS[verb]}")
    return found
