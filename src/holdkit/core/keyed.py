"""Names that are hashes: of claims, which anybody can compute; and keyed ones, under a secret of the database. Without the secret nobody
can try names until one fits. The secret is stored beside the journal, never in it. Pure functions."""

from __future__ import annotations

import hashlib
from typing import Final

CLAIMS: Final = "~claim/"
"""How the ids of claims' pools begin."""
CLAIM: Final = "res_"
"""How the ids of claims begin."""
ERASED_CLAIM: Final = "erased_"
"""How they begin once the claim was erased."""
SECRET: Final = 32
"""Bytes of a database's secret."""


def claim_id(key: str) -> str:
    """128 bits of a claim key's hash: always the same for the same key."""
    return CLAIM + hashlib.blake2b(key.encode(), digest_size=16, person=b"holdkit.claim").hexdigest()


def keyed(secret: bytes, purpose: bytes, *parts: str, size: int = 16) -> str:
    """Hex digits for these texts, and for no others."""
    hasher = hashlib.blake2b(digest_size=size, key=secret, person=purpose)
    for part in parts:
        text = part.encode()
        hasher.update(len(text).to_bytes(4) + text)
    return hasher.hexdigest()
