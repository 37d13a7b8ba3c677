"""Cursors: opaque text that says where a follower is in each lane, and what the last entry it saw there looked like."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from ..core.lanes import MAX_LANES
from ..core.model import MAX_SLOT
from ..core.validation import invalid

_PREFIX: Final = "hkc1."
_LONGEST: Final = 100_000
"""Characters: 1,024 lanes fit, at any height."""

Place: TypeAlias = Mapping[int, tuple[int, str]]
"""By lane: the number of the last entry seen, and the digest of what it looked like. A lane not seen yet is missing."""


def encode_cursor(place: Place) -> str:
    """The cursor behind a place; entry 0 of lane 0 is the beginning."""
    body = msgspec.json.encode([(lane, *place[lane]) for lane in sorted(place)] or [(0, 0, "")])
    return _PREFIX + base64.urlsafe_b64encode(body).decode().rstrip("=")


def decode_cursor(text: object) -> dict[int, tuple[int, str]]:
    """The place of a cursor, or `InvalidRequest`."""
    malformed = invalid("after", "cursor_malformed", "is not a cursor of this journal")
    if not isinstance(text, str) or not text.startswith(_PREFIX) or len(text) > _LONGEST:
        raise malformed
    body = text[len(_PREFIX) :]
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        lanes = msgspec.json.decode(raw, type=list[tuple[int, int, str]])
    except (ValueError, msgspec.DecodeError):
        raise malformed from None
    if not lanes or len({lane for lane, _, _ in lanes}) != len(lanes):
        raise malformed
    if not all(0 <= lane < MAX_LANES and 0 <= seq <= MAX_SLOT for lane, seq, _ in lanes):
        raise malformed
    return {lane: (seq, seen) for lane, seq, seen in lanes if seq}
