"""Signing secrets at rest. If the server has a secret of its own from outside the database, they are encrypted with a key that is
derived from it; otherwise they are stored in the clear.

A signing secret must be readable, because a receiver needs a signature: a hash would not do. The ciphertext is bound to its
tenant and webhook, so that write access to the database does not make one webhook sign with another's secret.
"""

from __future__ import annotations

import base64
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

SEALED: Final = "sealed1:"
"""Begins every encrypted secret; the one digit is the format."""
NONCE: Final = 12
MISSING: Final = (
    "its signing secret is encrypted, and this server has no HOLDKIT_SERVER_SECRET: set the one under which it was stored, "
    "or rotate the webhook's secret"
)
CHANGED: Final = (
    "its signing secret cannot be decrypted with this server's HOLDKIT_SERVER_SECRET: set the one under which it was stored, "
    "or rotate the webhook's secret"
)


class SecretUnreadable(Exception):
    """The secret was encrypted under another server secret. The text says what to do."""


def is_sealed(stored: str) -> bool:
    """Return whether a stored secret is encrypted."""
    return stored.startswith(SEALED)


class Sealer:
    """Encrypts and decrypts signing secrets. Without a server secret it does neither."""

    def __init__(self, server_secret: bytes | None) -> None:
        self._aead = None if server_secret is None else AESGCM(_derived(server_secret))

    def seal(self, tenant: str, hook: str, secret: str) -> str:
        """Return the text to store for a secret."""
        if self._aead is None:
            return secret
        nonce = os.urandom(NONCE)
        sealed = self._aead.encrypt(nonce, secret.encode(), _bound_to(tenant, hook))
        return SEALED + base64.b64encode(nonce + sealed).decode()

    def open(self, tenant: str, hook: str, stored: str) -> str:
        """Return the secret. Raises `SecretUnreadable`."""
        if not is_sealed(stored):
            return stored
        if self._aead is None:
            raise SecretUnreadable(MISSING)
        try:
            raw = base64.b64decode(stored.removeprefix(SEALED), validate=True)
            return self._aead.decrypt(raw[:NONCE], raw[NONCE:], _bound_to(tenant, hook)).decode()
        except (InvalidTag, ValueError):
            raise SecretUnreadable(CHANGED) from None


def _derived(server_secret: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=b"holdkit: signing secrets of webhooks").derive(server_secret)


def _bound_to(tenant: str, hook: str) -> bytes:
    return f"{len(tenant)}:{tenant}:{hook}".encode()
