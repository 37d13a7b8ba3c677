"""Pages of lists, as users see them; and cursors, the opaque texts that resume reading the journal.

A cursor says, for each lane, how far the journal was read, what the last entry there looked like, and in which generation of the
journal that was.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

import msgspec

from ..core.lanes import MAX_LANES
from ..core.model import MAX_SLOT
from ..core.validation import invalid

T = TypeVar("T")


class Page(list[T]):
    """One page of a list. To read the next page, pass `next` as `after`."""

    __slots__ = ("next",)

    next: str | None
    """Where the next page begins; None at the end of the list. A search that stops early returns a page that may be empty and has a `next`."""

    def __init__(self, rows: Iterable[T] = (), *, next: str | None = None) -> None:
        super().__init__(rows)
        self.next = next


class SizedPage(Page[T]):
    """A page that ends where its rows have too many bytes, too. `more`: there is more behind it."""

    __slots__ = ("more", "size")

    more: bool
    size: int
    """About the bytes of its rows."""

    def __init__(self, rows: Iterable[T] = ()) -> None:
        super().__init__(rows)
        self.more, self.size = False, 0


class JournalPage(Page[T]):
    """One page of the journal. To read the next page, pass `next`; to come back later for new entries, pass `cursor`."""

    __slots__ = ("cursor",)

    cursor: str
    """After the last entry of the page, and after everything that was searched; never None."""

    def __init__(self, rows: Iterable[T] = (), *, next: str | None = None, cursor: str) -> None:
        super().__init__(rows, next=next)
        self.cursor = cursor


_PREFIX: Final = "hkc2."
_LONGEST: Final = 100_000
"""Characters: 1,024 lanes fit, however long they are."""
_form: Final = re.compile(r"hkc2\.[A-Za-z0-9_-]+")
"""The decoder passes over any other character, such as a line break, which a message that repeats a cursor would repeat too."""

Positions: TypeAlias = Mapping[int, tuple[int, str]]
"""By lane: the number and the digest of the last entry read. A lane without an entry read is missing."""

_MARK: Final = "ba5e"


def baseline_mark(edition: int, rows: int) -> str:
    """Return the mark that replaces the digest in a cursor while a lane's baseline is read: it counts the rows already read."""
    return f"{_MARK}{edition & 0xFFFF:04x}{rows:08x}"


def is_baseline_mark(seen: str) -> bool:
    """Return whether a cursor stands in a baseline, of any edition. (One of 65,536 digests looks like a mark: compare those first.)"""
    return seen.startswith(_MARK)


def rows_behind(mark: str, edition: int) -> int | None:
    """Return how many rows of the baseline a cursor has read; None if the text is no mark, or of another edition."""
    return int(mark[8:], 16) if mark.startswith(baseline_mark(edition, 0)[:8]) and len(mark) == 16 else None


def encode_cursor(positions: Positions, generation: str = "") -> str:
    """Return the cursor behind these positions; entry 0 of lane 0 is the beginning."""
    lanes = [(lane, *positions[lane]) for lane in sorted(positions)] or [(0, 0, "")]
    body = msgspec.json.encode((generation, lanes))
    return _PREFIX + base64.urlsafe_b64encode(body).decode().rstrip("=")


def decode_cursor(text: object) -> dict[int, tuple[int, str]]:
    """Return the positions of a cursor, or `InvalidRequest`."""
    return {lane: (seq, seen) for lane, seq, seen in _decoded(text)[1] if seq}


def generation_of(text: object) -> str:
    """Return the generation of the journal in which a cursor was made, or `InvalidRequest`."""
    return _decoded(text)[0]


def _decoded(text: object) -> tuple[str, list[tuple[int, int, str]]]:
    malformed = invalid("after", "cursor_malformed", "is not a cursor of this journal")
    if not isinstance(text, str) or len(text) > _LONGEST or _form.fullmatch(text) is None:
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
