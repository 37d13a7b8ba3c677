"""Positions and cursors as they leave and enter the server: readable for operators, sealed for everybody else.

Theory of operation
-------------------

All tenants share one journal. An entry's lane and number therefore count the entries of strangers, and a cursor at the end of
the journal also carries a digest of the newest entry, of any tenant, which confirms a guess at that entry's content. So
nothing of it leaves the server in the clear, except to an operator's key, which may read the journal of all tenants anyway.

*A position* is shown as a keyed hash of lane and number. The same entry has the same text in every answer, so that a receiver
recognises a duplicate; two texts have no order, and trying numbers does not find them without the key. It is never read back.

*A cursor* is encrypted and authenticated (AES-SIV) under a key of the tenant, with a fresh nonce: two texts of the same cursor
differ, because equal texts would reveal that no tenant has written meanwhile. It always has room for every lane, and numbers
of a fixed width, because the length would count lanes in use, or digits. A text that does not decrypt was made for another
tenant, under another secret, or by hand: it is refused like any malformed cursor.

Both keys are derived from the server's secret and the tenant. All servers on a database share that secret, so a cursor counts on
each of them, and after a restart. A webhook or a follower in the server stores plain cursors, which never leave it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from ..core.outcomes import Position
from ..core.validation import invalid
from ..errors import InvalidRequest
from ..kernel.journal import JournalEntry
from ..kernel.pages import Positions, decode_cursor, encode_cursor, generation_of
from ..wire.fields import ShowPosition
from ..wire.journal import SEALED

_NONCE: Final = 16
_LONGEST: Final = 100_000
_LANE: Final = 16
"""Bytes of a lane."""
CURSOR: Final = b"cursor"
TEXT: Final = b"text"
"""What was sealed: a text of one purpose is not accepted for the other."""
BEGINNING: Final = encode_cursor({})
"""The cursor before the first entry. It tells nothing, so every caller may send it."""


class PlainPositions:
    """Positions and cursors for an operator: `0.17` is entry 17 of lane 0, and cursors are the kernel's."""

    def __init__(self) -> None:
        self.position: ShowPosition = str
        """Spells a position."""

    def hide(self, text: str) -> str:
        """Hide a text of fixed length that contains a position, such as where a list continues."""
        return text

    def reveal(self, text: str) -> str:
        """Return the text that was hidden. Raise `InvalidRequest` if it was not."""
        return text

    def cursor_behind(self, entry: JournalEntry) -> str:
        """Return the cursor that resumes after an entry."""
        return entry.cursor

    def show(self, cursor: str) -> str:
        """Return a cursor of the kernel as the caller sees it."""
        return cursor

    def read(self, text: str) -> str:
        """Return the kernel's cursor for one that the caller sent. Raise `InvalidRequest` if it is malformed."""
        return text


class SealedPositions(PlainPositions):
    """Positions and cursors for one tenant. `lanes` is the number of lanes of the engine."""

    def __init__(self, secret: bytes, tenant: str, lanes: int) -> None:
        super().__init__()
        self.position = self._hash_position
        self._lanes = lanes
        self._hasher = hashlib.blake2b(
            key=_key(secret, tenant, b"holdkit.position", 32), digest_size=12
        )  # 96 bits: among a billion entries, two are alike with a chance of 10**-11
        self._cipher = AESSIV(_key(secret, tenant, b"holdkit.cursor", 64))
        self._packed: tuple[Positions | None, bytes] = (None, b"")
        """What the last entry was read behind, packed."""

    def _hash_position(self, at: Position) -> str:
        """Return the keyed hash of a position: equal for one entry, without order."""
        hasher = self._hasher.copy()
        hasher.update(b"%d.%d" % (at.lane, at.seq))
        return hasher.hexdigest()

    def hide(self, text: str) -> str:
        """Seal a text. Each call returns another one."""
        return self._encrypted(text.encode(), TEXT)

    def reveal(self, text: str) -> str:
        """Return the text that was sealed. Raise `InvalidRequest` if it was not sealed here."""
        try:
            return self._decrypted(text, TEXT).decode()
        except (ValueError, InvalidTag):
            raise invalid("after", "cursor_malformed", "is not what an answer of this list has as `next`") from None

    def cursor_behind(self, entry: JournalEntry) -> str:
        """Return the cursor that resumes after an entry, sealed."""
        raw = entry.raw
        before, lane = raw.read_before, raw.row.lane
        known, packed = self._packed
        if known is not before:  # the entries of a page come in runs that share it, and there may be a thousand lanes
            packed = self._pack(before)
            self._packed = (before, packed)
        if lane >= len(packed) // _LANE:
            packed = self._pack({**before, lane: (0, "")})
        body = bytearray(packed)
        struct.pack_into(">QQ", body, lane * _LANE, raw.row.seq, int(raw.seen or "0", 16))
        return self._sealed(bytes(body), raw.generation)

    def show(self, cursor: str) -> str:
        """Seal a cursor. Each call returns another text."""
        return self._sealed(self._pack(decode_cursor(cursor)), generation_of(cursor))

    def read(self, text: str) -> str:
        """Return the cursor in a sealed text. Raise `InvalidRequest` if there is none."""
        if text == BEGINNING:
            return text
        try:
            return self._opened(text)
        except (ValueError, InvalidTag, InvalidRequest):  # not ASCII, not base64, not ours
            raise invalid("after", "cursor_malformed", "is not a cursor that this API key's tenant was given") from None

    def _pack(self, positions: Positions) -> bytes:
        """Pack the number and the digest of every lane; a digest of zeros stands for none."""
        lanes = range(max(self._lanes, 1 + max(positions, default=0)))
        found = [positions.get(lane, (0, "")) for lane in lanes]
        numbers = [number for seq, seen in found for number in (seq, int(seen or "0", 16))]
        return struct.pack(f">{len(numbers)}Q", *numbers)

    def _sealed(self, lanes: bytes, generation: str) -> str:
        return self._encrypted(b"".join((lanes, generation.encode(), len(lanes).to_bytes(4))), CURSOR)

    def _encrypted(self, body: bytes, purpose: bytes) -> str:
        nonce = os.urandom(_NONCE)
        sealed = nonce + self._cipher.encrypt(body, [purpose, nonce])
        return SEALED + base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def _decrypted(self, text: str, purpose: bytes) -> bytes:
        if not text.startswith(SEALED) or len(text) > _LONGEST:
            raise ValueError
        raw = text[len(SEALED) :].encode("ascii")
        sealed = base64.b64decode(raw + b"=" * (-len(raw) % 4), altchars=b"-_", validate=True)
        if base64.urlsafe_b64encode(sealed).rstrip(b"=") != raw:  # one cursor text has one spelling
            raise ValueError
        return self._cipher.decrypt(sealed[_NONCE:], [purpose, sealed[:_NONCE]])

    def _opened(self, text: str) -> str:
        body = self._decrypted(text, CURSOR)
        size = int.from_bytes(body[-4:])
        numbers = struct.unpack(f">{size // 8}Q", body[:size])
        found = {
            lane: (seq, f"{seen:016x}" if seen else "")
            for lane, (seq, seen) in enumerate(zip(numbers[::2], numbers[1::2], strict=True))
            if seq
        }
        return encode_cursor(found, body[size:-4].decode())


def _key(secret: bytes, tenant: str, purpose: bytes, size: int) -> bytes:
    """Return the key of one tenant for one purpose."""
    return hashlib.blake2b(tenant.encode(), key=secret, person=purpose, digest_size=size).digest()
