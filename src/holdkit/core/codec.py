"""Encodings: canonical JSON, fingerprints, owner hashes, hold ids, tickets.

Everything here is a pure function. A fingerprint is blake2b-128 over msgspec's deterministic JSON of the caller's request. It leaves
out what the kernel minted, the caller's waiting time, and the actor, reason, correlation id and trace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from hmac import compare_digest
from typing import Any, Final

import msgspec
from msgspec import structs

from .commands import COMMANDS, AnyCommand
from .entries import Entry
from .fields import defaults_of
from .model import Slot
from .outcomes import Done, Outcome, Refusal

_canonical: Final = msgspec.json.Encoder(order="deterministic")
_plain: Final = msgspec.json.Encoder()
_entry: Final = msgspec.json.Decoder(Entry)
_outcome: Final = msgspec.json.Decoder(Done | Refusal)
_owner: Final = hashlib.blake2b(digest_size=16, person=b"holdkit.owner")
_RANDOM_BITS: Final = bytes.fromhex("0fff3fffffffffffffff")  # of the last 10 bytes of a UUID
_VERSION_7: Final = bytes.fromhex("70008000000000000000")  # the others: version and variant


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces."""
    return _canonical.encode(value).decode()


def encode_entry(entry: Entry) -> str:
    """Encode an entry as JSON text."""
    return _plain.encode(entry).decode()


def decode_entry(text: str | bytes) -> Entry:
    """Decode the JSON text of an entry."""
    return _entry.decode(text)


def encode_outcome(outcome: Outcome) -> str:
    """Encode an outcome as JSON text, including the token, which only operation records keep."""
    return _plain.encode(outcome).decode()


def decode_outcome(text: str | bytes) -> Done | Refusal:
    """Decode the JSON text of an outcome."""
    outcome: Done | Refusal = _outcome.decode(text)
    return outcome


_BESIDE_KEY: Final = {
    kind: {name: value for name, value in defaults_of(kind).items() if name in kind.beside_key}
    for kind in COMMANDS.values()
}
"""What a fingerprint takes no notice of, by kind of command: the field at its default."""


def fingerprint(command: AnyCommand, client_id: bytes = b"", original: AnyCommand | None = None) -> str:
    """Return 32 hex digits that distinguish payloads under one operation id. They are computed from `original` if a face made the
    command from it.

    If, and only if, the answer carries a token, they also distinguish one `client_id` from another.
    """
    asked = command if original is None else original
    asked = structs.replace(asked, **_BESIDE_KEY[type(asked)])
    if asked.names == "legs" and len(asked.legs) > 1:
        asked = structs.replace(asked, legs=tuple(sorted(asked.legs, key=lambda leg: leg.pool)))
    key = client_id if command.names == "legs" else b""
    return hashlib.blake2b(_canonical.encode(asked), digest_size=16, key=key).hexdigest()


def group_fingerprint(commands: Sequence[AnyCommand], atomic: bool) -> str:
    """Return the fingerprint of a group, computed from the fingerprints that its commands already have."""
    hasher = hashlib.blake2b(b"all or none" if atomic else b"each", digest_size=16)
    for command in commands:  # piece by piece: hashing a long text at once releases the interpreter lock
        hasher.update(f"\n{command.op}\n{command.fingerprint}".encode())
    return hasher.hexdigest()


def hash_owner(token: str) -> str:
    """Hash a token for holds and journal, which never store the token."""
    hasher = _owner.copy()
    hasher.update(token.encode())
    return hasher.hexdigest()


def same_owner(token: str | None, owner_hash: str) -> bool:
    """Return whether the token is the hold's, compared in constant time."""
    return token is not None and compare_digest(hash_owner(token), owner_hash)


def digest(text: str) -> str:
    """Return a short digest of a text."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


# Hold ids: 32 hex digits of a UUID. Minted ones are version 7, so that they sort by time and show their age.


def minted_id(slot: Slot, randomness: bytes) -> str:
    """Return a UUID of version 7 out of 10 random bytes: 48 bits of milliseconds, then 74 random bits."""
    return id_begin(slot // 1000) + id_ends(randomness)[0]


@lru_cache(maxsize=8)
def id_begin(milliseconds: int) -> str:
    """Return the first digits of ids that are minted in this millisecond; under load there are many such ids."""
    return f"{milliseconds & 0xFFFF_FFFF_FFFF:012x}"


def id_ends(randomness: bytes, piece: int = 10) -> list[str]:
    """Return the digits that follow the time in minted ids: 20 digits for the first 10 random bytes of each piece, and the digits of the
    rest of it. All of them are made at once."""
    many, rest = len(randomness) // piece, piece - 10
    random = int.from_bytes(randomness) & int.from_bytes((_RANDOM_BITS + b"\xff" * rest) * many)
    text = (random | int.from_bytes((_VERSION_7 + bytes(rest)) * many)).to_bytes(piece * many).hex()
    return [text[at : at + 2 * piece] for at in range(0, len(text), 2 * piece)]


def minted_at(hold_id: str) -> Slot | None:
    """Return the time at which an id was minted, or None if its form shows that Holdkit did not mint it."""
    if len(hold_id) != 32 or hold_id[12] != "7" or hold_id[16] not in "89ab":
        return None
    return int(hold_id[:12], 16) * 1000


_TICKET: Final = "hk1."
_CHECK: Final = hashlib.blake2b(digest_size=3, person=b"holdkit.ticket")
_CHECK_LETTERS: Final = "abcdefghjkmnpqrstuvwxyz023456789"


def ticket(hold_id: str, token: str) -> str:
    """Return the one text that carries id and token, for webhooks and other processes. Its last four characters are a checksum."""
    text = f"{_TICKET}{hold_id}.{token}"
    return f"{text}.{_checksum(text)}"


def is_ticket(value: object) -> bool:
    """Return whether a value is meant as a ticket, even a damaged one; no id begins like one."""
    return isinstance(value, str) and value.startswith(_TICKET)


def read_ticket(text: str) -> tuple[str, str] | None:
    """Return the id and token of a ticket, or None if the text is no ticket, or one that was cut short or damaged."""
    signed, _, checksum = text.rpartition(".")
    parts = signed.split(".", 2)
    if len(parts) != 3 or not signed.startswith(_TICKET) or checksum != _checksum(signed):
        return None
    return (parts[1], parts[2]) if parts[1] and parts[2] else None


def _checksum(text: str) -> str:
    """Return four characters that a changed or shortened text has only once in a million. They are letters and digits, because
    programs that turn an address in a text into a link leave punctuation at its end out."""
    hasher = _CHECK.copy()
    hasher.update(text.encode("utf-8", "surrogatepass"))
    bits = int.from_bytes(hasher.digest())
    return "".join([_CHECK_LETTERS[bits >> shift & 31] for shift in (0, 5, 10, 15)])
