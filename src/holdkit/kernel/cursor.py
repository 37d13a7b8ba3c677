"""Cursors: opaque text that says where a follower is in each lane, what the last entry it saw there looked like, and in which
generation of the journal that was."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final, TypeAlias

import msgspec

from ..core.lanes import MAX_LANES
from ..core.model import MAX_SLOT
from ..core.validation import invalid

_PREFIX: Final = "hkc2."
_LONGEST: Final = 100_000
"""Characters: 1,024 lanes fit, at any height."""

Place: TypeAlias = Mapping[int, tuple[int, str]]
"""By lane: the number of the last entry seen, and the digest of what it looked like. A lane not seen yet is missing."""


def encode_cursor(place: Place, generation: str = "") -> str:
    """The cursor behind a place; entry 0 of lane 0 is the beginning."""
    lanes = [(lane, *place[lane]) for lane in sorted(place)] or [(0, 0, "")]
    body = msgspec.json.encode((generation, lanes))
    return _PREFIX + base64.urlsafe_b64encode(body).decode().rstrip("=")


def decode_cursor(text: object) -> dict[int, tuple[int, str]]:
    """The place of a cursor, or `InvalidRequest`."""
    return {lane: (seq, seen) for lane, seq, seen in _decoded(text)[1] if seq}


def generation_of(text: object) -> str:
    """The generation of the journal in which a cursor was made, or `InvalidRequest`."""
    return _decoded(text)[0]


def _decoded(text: object) -> tuple[str, list[tuple[int, int, str]]]:
    malformed = invalid("after", "cursor_malformed", "is not a cursor of this journal")
    if not isinstance(text, str) or not text.startswith(_PREFIX) or len(text) > _LONGEST:
        raise malformed
    body = text[len(_PREFIX) :]
    try:
        raw = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
        generation, lanes = msgspec.json.decode(raw, type=tuple[str, list[tuple[int, int, str]]])
    except (ValueError, msgspec.DecodeError):
        raise malformed from None
    if not lanes or len({lane for lane, _, _ in lanes}) != len(lanes):
        raise malformed
    if not all(0 <= lane < MAX_LANES and 0 <= seq <= MAX_SLOT for lane, seq, _ in lanes):
        raise malformed
    return generation, lanes
