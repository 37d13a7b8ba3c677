"""A pool's history, found in a journal that has no index for it: writing one would cost every hold, reading is rare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from ..core.reading import JournalRow, entry_of, touches

SPAN: Final = 20_000
"""Entries that one statement looks through, so that none takes long however long the journal is."""

Look: TypeAlias = Callable[[int, int, int], list[JournalRow]]
"""Rows whose text names the pool: behind a number, up to a number, at most so many."""


def written(pool: str) -> str:
    """How an entry's text names a pool."""
    return msgspec.json.encode(pool).decode()


def find_touching(pool: str, after: int, last: int, limit: int, look: Look) -> list[JournalRow]:
    """The first entries of a lane behind `after` that touched a pool."""
    found: list[JournalRow] = []
    while after < last and len(found) < limit:
        upto, most = min(after + SPAN, last), limit - len(found)
        rows = look(after, upto, most)
        found += [row for row in rows if touches(entry_of(row), pool)]
        after = rows[-1].seq if len(rows) == most else upto
    return found
