"""Ed25519 signatures of seals. The keys are PEM files; the extra `holdkit[seals]` brings what reads them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidRequest, MissingExtra

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

CONTEXT = b"holdkit.seal.1/"
"""Goes before every digest that is signed, so that no signature made for something else can be used."""


class PublicKey:
    """Checks signatures."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        self.id = hashlib.sha256(key.public_bytes_raw()).hexdigest()[:16]
        """A digest of the key, which every seal that it has signed names."""

    @classmethod
    def load(cls, path: str | Path) -> PublicKey:
        """Read a PEM file: of the public key, or of the private key that belongs to it."""
        from_pem, public, private = _library()
        data = _read(path)
        key: Any = None
        if b"PRIVATE KEY" in data:
            key = _loaded(path, lambda: from_pem.load_pem_private_key(data, None), private).public_key()
        else:
            key = _loaded(path, lambda: from_pem.load_pem_public_key(data), public)
        return cls(key)

    def verifies(self, signature: str, digest: str) -> bool:
        """Return whether this key has signed the digest."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(bytes.fromhex(signature), CONTEXT + bytes.fromhex(digest))
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey:
    """Signs seals."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key())
        self.id = self.public.id

    @classmethod
    def load(cls, path: str | Path) -> SigningKey:
        """Read a PEM file that is not encrypted."""
        from_pem, _, private = _library()
        data = _read(path)
        return cls(_loaded(path, lambda: from_pem.load_pem_private_key(data, None), private))

    def sign(self, digest: str) -> str:
        """Return the signature of a digest, in hex."""
        return self._key.sign(CONTEXT + bytes.fromhex(digest)).hex()


def _library() -> tuple[Any, Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    except ModuleNotFoundError as missing:
        raise MissingExtra("seals", missing) from missing
    return serialization, Ed25519PublicKey, Ed25519PrivateKey


def _read(path: str | Path) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidRequest(
            f"cannot read {path}: {error.strerror or error}", field="key", code="key_unreadable"
        ) from error


def _loaded(path: str | Path, load: Any, kind: Any) -> Any:
    try:
        key = load()
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"{path} is no key in PEM, or is encrypted: {error}", field="key", code="key_malformed"
        ) from None
    if not isinstance(key, kind):
        raise InvalidRequest(f"{path} is not an Ed25519 key", field="key", code="key_malformed")
    return key
