"""Lanes: which part of the journal a thing belongs to.

A pool belongs to one lane for ever, so everything about it is in order there. Embedded engines have only lane 0; an engine
with several fixes their number when its tables are created. Pure functions of ids: the same in every process and release.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

from .model import Key, RecordKey
from .trees import root_of

MAX_LANES = 1 << 16
"""A hold's id has room for this many."""


_LOW = {f"{byte:02x}": byte for byte in range(256)}


@lru_cache(maxsize=65_536)  # called several times per command
def lane_of_pool(key: Key, lanes: int) -> int:
    """Return the lane of a pool: its root's."""
    return crc32(f"{key[0]}\0{root_of(key[1])}".encode()) % lanes if lanes > 1 else 0


def lane_of_operation(key: Key, lanes: int) -> int:
    """Return the lane of an operation id: independent of pools, so that its reuse with another pool is detected."""
    return crc32(f"{key[0]}\0op\0{key[1]}".encode()) % lanes if lanes > 1 else 0


def lane_of_record(key: RecordKey, lanes: int) -> int:
    """Return the lane of a record."""
    return crc32("\0".join(key).encode()) % lanes if lanes > 1 else 0


def lane_of_hold(hold_id: str, lanes: int) -> int:
    """Return the lane of a hold, given by the low 16 bits of its id."""
    return int(hold_id[-4:], 16) % lanes if 256 % lanes else _LOW[hold_id[-2:]] % lanes  # mostly 8 bits are enough


def in_lane(hold_id: str, lane: int, lanes: int) -> str:
    """Move a minted id into a lane: replace the part of its low 16 bits that the lane determines."""
    if lanes == 1:
        return hold_id
    low = int(hold_id[-4:], 16) % (MAX_LANES // lanes) * lanes + lane
    return f"{hold_id[:-4]}{low:04x}"
