"""Names that are hashes. Those of claims can be computed by anyone; keyed ones need a secret of the database, which prevents trying
names until one fits. The secret is stored beside the journal, never in it. Pure functions."""

from __future__ import annotations

import hashlib
import re
from typing import Final

CLAIMS: Final = "~claim/"
"""How the ids of claims' pools begin."""
ITEMS: Final = "~item/"
"""How the ids of items' pools begin."""
CLAIM: Final = "res_"
"""How the ids of claims begin."""
ERASED_CLAIM: Final = "erased_"
"""How they begin once the claim was erased."""
SECRET: Final = 32
"""Bytes of a database's secret."""


_MADE_BY_FACES: Final = re.compile(r"^~(?:(?:item|claim|calendar|budgets|rates|r)/)?")
"""How the ids of pools begin that a face has made."""


def leg_name(pool: str, label: str | None = None) -> str:
    """Return the name of a pool for its users: the label, else the id without the prefix of a face."""
    if label is not None:
        return label
    return pool if pool[:1] != "~" else _MADE_BY_FACES.sub("", pool, count=1)


def label_of(pool: str, name: str) -> str | None:
    """Return the label that a pool has under this name: only those of claims and items have one."""
    return name if pool.startswith((CLAIMS, ITEMS)) else None


def claim_id(key: str) -> str:
    """Return the pool id of a claim key: 128 bits of its hash, so one key always has one id."""
    return CLAIM + hashlib.blake2b(key.encode(), digest_size=16, person=b"holdkit.claim").hexdigest()


def keyed(secret: bytes, purpose: bytes, *parts: str, size: int = 16) -> str:
    """Hash these texts to hex digits that no other texts have."""
    hasher = hashlib.blake2b(digest_size=size, key=secret, person=purpose)
    for part in parts:
        text = part.encode()
        hasher.update(len(text).to_bytes(4) + text)
    return hasher.hexdigest()
