"""Frames: what one fsync covers, with a checksum over file, place, number, header and body.

A frame that was torn, moved, copied from another file or touched in any bit does not check. Knows bytes, not holds.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Final

from msgspec import Struct

MAGIC: Final = b"HKF1"
HEAD: Final = struct.Struct("<4sIQQ16s")  # magic, body length, frame number, first entry's number, checksum
MAX_BODY: Final = 1 << 30


class Frame(Struct, frozen=True, gc=False):
    """One frame as found in a file."""

    number: int
    first_seq: int
    """The number of its first journal entry (or of the next one to come, if it has none)."""
    offset: int
    end: int
    body: bytes
    checksum: bytes


def checksum(file_id: bytes, offset: int, number: int, first_seq: int, body: bytes) -> bytes:
    """Over everything that makes this frame this frame."""
    place = struct.pack("<16sQQQQ", file_id, offset, number, first_seq, len(body))
    return hashlib.blake2b(body, digest_size=16, key=place).digest()


def encode_frame(file_id: bytes, offset: int, number: int, first_seq: int, body: bytes) -> bytes:
    """A frame ready to be appended at `offset`."""
    return HEAD.pack(MAGIC, len(body), number, first_seq, checksum(file_id, offset, number, first_seq, body)) + body


def decode_frame(file_id: bytes, data: bytes, offset: int, base: int = 0) -> Frame | None:
    """The frame at `offset` of the file whose bytes from `base` on are `data`; None if it does not check."""
    start = offset - base
    if len(data) - start < HEAD.size:
        return None
    magic, length, number, first_seq, expected = HEAD.unpack_from(data, start)
    if magic != MAGIC or length > MAX_BODY or len(data) - start - HEAD.size < length:
        return None
    body = bytes(data[start + HEAD.size : start + HEAD.size + length])
    if checksum(file_id, offset, number, first_seq, body) != expected:
        return None
    return Frame(number, first_seq, offset, offset + HEAD.size + length, body, expected)


def chained(chain: bytes, checksum: bytes) -> bytes:
    """What all frames up to one came to: two logs that ever differed never agree again."""
    return hashlib.blake2b(chain + checksum, digest_size=16).digest()


def later_frame(file_id: bytes, data: bytes, offset: int) -> Frame | None:
    """The first whole frame anywhere behind `offset`: its presence means damage in the middle, not a torn tail."""
    start = data.find(MAGIC, offset + 1)
    while start != -1:
        frame = decode_frame(file_id, data, start)
        if frame is not None:
            return frame
        start = data.find(MAGIC, start + 1)
    return None
