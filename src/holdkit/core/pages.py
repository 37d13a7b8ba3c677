"""Pages of rows: they end at a number of rows, and at about a number of bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from .model import Record, StoredHold

T = TypeVar("T")


class Page(list[T]):
    """Rows of a list, and whether more of them may follow."""

    __slots__ = ("more", "reached", "size")

    def __init__(
        self, rows: Iterable[T] = (), *, more: bool = False, size: int = 0, reached: str | None = None
    ) -> None:
        super().__init__(rows)
        self.more, self.size, self.reached = more, size, reached
        """`more`: whether the page ended at its limit, at its bytes or at what one query looks at; if not, it has everything. `size`:
        about its bytes, if it was to end at them. `reached`: of a list that is searched, where the next page begins: its last row may
        be long before that, or missing."""


def page_of(rows: Iterable[T], size: Callable[[T], int], limit: int | None, max_bytes: int | None = None) -> Page[T]:
    """Return the first rows: at most `limit` of them and at most `max_bytes` together, but always one if there is one. Take no row
    from `rows` beyond the page, except the first that does not fit."""
    page: Page[T] = Page()
    for row in rows:
        if max_bytes is not None:
            with_it = page.size + size(row)
            if page and with_it > max_bytes:
                page.more = True
                break
            page.size = with_it
        page.append(row)
        if len(page) == limit:
            page.more = True
            break
    if max_bytes is not None and page.size > max_bytes:
        page.more = True  # one row, too large by itself: its reader may have left out those that follow
    return page


def text_bytes(text: str | None) -> int:
    """Count the bytes of a text in UTF-8."""
    return 0 if text is None else len(text) if text.isascii() else len(text.encode())


def hold_bytes(hold: StoredHold) -> int:
    """Estimate the bytes of a hold, as a document."""
    return 500 + text_bytes(hold.metadata) + sum([80 + text_bytes(leg.pool) for leg in hold.legs])


def record_bytes(record: Record) -> int:
    """Estimate the bytes of a record, as a document."""
    return document_bytes(record.body)


def document_bytes(body: str) -> int:
    """Estimate the bytes of a record with this body, as a document."""
    return 200 + text_bytes(body)


def beyond(prefix: str) -> str | None:
    """Return the first text, in code point order, after all that begin with `prefix`; None if there is none."""
    while prefix:
        last = ord(prefix[-1])
        if last < 0x10FFFF:
            return prefix[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)
        prefix = prefix[:-1]
    return None


def disjoint(prefixes: Iterable[str]) -> tuple[str, ...]:
    """Return these prefixes in order, without those that begin with another of them: a text begins with at most one of the result."""
    found: list[str] = []
    for prefix in sorted(prefixes):
        if not found or not prefix.startswith(found[-1]):
            found.append(prefix)
    return tuple(found)


def ranges_behind(after: str, prefixes: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return the texts behind `after` that begin with one of these prefixes, as ranges in order. A range begins with its first text,
    which may be `after` itself, and ends before a text that is outside it. There must be at least one prefix."""
    found = [(max(after, prefix), beyond(prefix)) for prefix in disjoint(prefixes)]
    return [(lower, upper) for lower, upper in found if upper is None or lower < upper]
