"""Cursors: opaque text that says where a follower is, and what the last entry it saw looked like."""

from __future__ import annotations

import base64
from typing import Final

import msgspec

from ..core.model import MAX_SLOT
from ..core.validation import invalid

_PREFIX: Final = "hkc1."


def encode_cursor(seq: int, digest: str) -> str:
    """A cursor behind entry `seq` of lane 0."""
    body = msgspec.json.encode([[0, seq, digest]])
    return _PREFIX + base64.urlsafe_b64encode(body).decode().rstrip("=")


def decode_cursor(text: object) -> tuple[int, str]:
    """Number and digest of the last entry seen, or `InvalidRequest`."""
    malformed = invalid("after", "cursor_malformed", "is not a cursor of this journal")
    if not isinstance(text, str) or not text.startswith(_PREFIX) or len(text) > 4_096:
        raise malformed
    body = text[len(_PREFIX) :]
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        lanes = msgspec.json.decode(raw, type=list[tuple[int, int, str]])
    except (ValueError, msgspec.DecodeError):
        raise malformed from None
    if len(lanes) != 1 or lanes[0][0] != 0 or not 0 <= lanes[0][1] <= MAX_SLOT:
        raise malformed
    return lanes[0][1], lanes[0][2]
