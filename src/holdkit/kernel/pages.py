"""Pages of lists, as users see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

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
