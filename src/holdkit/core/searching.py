"""Searching: which holds and entries fit a query, and how much one query may look at.

Theory of operation. Hold ids and the journal have an order that is stored anyway, so a search walks along that order and needs no index
of its own: nothing is added to what a hold costs. A walk looks at `max_scanned` rows at most, however many there are and however
rare the match is; a page that ends there says how far it has come (`Page.reached`), and the next page begins there. A page may
therefore be empty although more follow. A store may take a shorter way, by an index, as long as the answer is the same.

The time at which a hold was placed is the one in its id if the id is a UUID of version 7, as those that Holdkit mints; of any other
id it is when the hold was granted or joined a line. So a range of time is a range of ids, and of the others there is a small index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, TypeVar

from msgspec import Struct

from .codec import minted_at
from .entries import Action, Entry
from .model import WAITING, Key, Slot, StoredHold
from .pages import Page, hold_bytes, page_of
from .reading import JournalRow, ListHolds, Query

T = TypeVar("T")

AT_ONCE: Final = 100
"""Holds that are read at a time, of those whose columns fit: what remains of the query is decided on the whole hold."""
FEW: Final = 2_000
"""Legs outstanding on a pool up to which its live holds are found by them; of more, by a walk along all holds."""
_LAST_TIME: Final = 0xFFFF_FFFF_FFFF
"""Milliseconds: the last time that an id can carry."""


def placed_at(hold: StoredHold) -> Slot:
    """Return when a hold was placed: by its id or, if that carries no time, when it was granted or joined a line."""
    minted = minted_at(hold.id)
    if minted is not None:
        return minted
    return hold.began if hold.joined_at is None else hold.joined_at


def fits_hold(hold: StoredHold, query: ListHolds) -> bool:
    """Return whether a hold, as readers see it now, is one that the query asks for."""
    return (
        (query.state is None or hold.state is query.state)
        and (query.entity is None or hold.entity == query.entity)
        and (query.actor is None or hold.actor == query.actor)
        and (query.account is None or hold.account == query.account)
        and (query.pool is None or any(leg.pool == query.pool for leg in hold.legs))
        and (not query.within or all(leg.pool.startswith(query.within) for leg in hold.legs))
        and (query.placed_from is None or placed_at(hold) >= query.placed_from)
        and (query.placed_to is None or placed_at(hold) < query.placed_to)
    )


class IdRange(NamedTuple):
    """Ids from `lower` on, before `upper`; None: to the last one. Neither needs to be a whole id."""

    lower: str = ""
    upper: str | None = None

    def meets(self, other: IdRange) -> IdRange:
        """Return the range that both have in common."""
        uppers = [upper for upper in (self.upper, other.upper) if upper is not None]
        return IdRange(max(self.lower, other.lower), min(uppers, default=None))

    def has(self, id: str) -> bool:
        """Return whether an id is in it."""
        return id >= self.lower and (self.upper is None or id < self.upper)


def ids_left(query: ListHolds) -> IdRange:
    """Return the ids behind the place where the query begins. (No digit is before 0.)"""
    if not query.after:
        return IdRange()
    return IdRange(upper=query.after) if query.newest_first else IdRange(lower=query.after + "0")


def ids_minted(query: ListHolds) -> IdRange | None:
    """Return the ids that carry a time within that of the query; None if it does not ask for a time."""
    if query.placed_from is None and query.placed_to is None:
        return None
    begin = 0 if query.placed_from is None else -(-query.placed_from // 1_000)
    end = _LAST_TIME + 1 if query.placed_to is None else -(-query.placed_to // 1_000)
    if begin > _LAST_TIME or end <= 0:
        return IdRange(upper="")
    return IdRange(f"{max(0, begin):012x}", None if end > _LAST_TIME else f"{end:012x}")


def spans(query: ListHolds) -> Iterator[int]:
    """Yield the number of rows that a query looks at, step by step: few at first, because most queries are answered there."""
    span, left = query.limit + AT_ONCE, query.max_scanned
    while left > 0:
        yield min(span, left)
        span, left = 8 * span, left - span


class Walked(NamedTuple):
    """The result of one walk along the holds."""

    ids: Iterable[str]
    """Those whose columns fit, in the order of the walk."""
    end: str | None = None
    """The last id that it has looked at, if more follow."""


def joined(walks: Iterable[Walked], *, newest_first: bool) -> Walked:
    """Join walks to one, which ends where the slowest of them ended. Leave ids beyond that end to a later walk."""
    parts = list(walks)
    ends = [walk.end for walk in parts if walk.end is not None]
    end = None if not ends else max(ends) if newest_first else min(ends)
    found = {id for walk in parts for id in walk.ids if end is None or (id >= end if newest_first else id <= end)}
    return Walked(sorted(found, reverse=newest_first), end)


def reached(page: Page[StoredHold], end: str | None) -> Page[StoredHold]:
    """Return the page of a walk; the next one begins behind its last hold if it is full, else behind the last row that was read."""
    if page.more:
        page.reached = page[-1].id
    elif end is not None:
        page.more, page.reached = True, end
    return page


class FoundEntries(Struct, frozen=True):
    """Entries that were searched for, in the order of the query."""

    rows: Page[JournalRow]
    """`more`: whether anything is left to search."""
    reached: Mapping[int, int]
    """By lane: what is left are the entries up to this number or, oldest first, behind it."""


class SearchJournal(Query[FoundEntries], frozen=True):
    """Find the entries that fit, of one tenant, or of all if `tenant` is None: newest first, or oldest first. Each lane is in order;
    the parts of the lanes that this query has read are merged by time."""

    tenant: str | None
    start: Mapping[int, int] | None = None
    """`reached` of the page before; None: from the end, or from the beginning. A lane that is missing has no entries left or, oldest
    first, has all of them left."""
    newest_first: bool = True
    action: Action | None = None
    subject: str | None = None
    actor: str | None = None
    correlation_id: str | None = None
    limit: int = 100
    max_bytes: int | None = None
    max_scanned: int = 20_000


def fits_entry(entry: Entry, query: SearchJournal) -> bool:
    """Return whether an entry is one that the query asks for."""
    return (
        (query.tenant is None or entry.tenant == query.tenant)
        and (query.action is None or entry.action is query.action)
        and (query.subject is None or entry.subject == query.subject)
        and (query.actor is None or entry.actor == query.actor)
        and (query.correlation_id is None or entry.correlation_id == query.correlation_id)
    )


class ListLine(Query[Page[StoredHold]], frozen=True):
    """List the holds that wait in a pool's line behind the number `after`, in order of their numbers. Skip holds whose time is over."""

    key: Key
    after: int = 0
    limit: int = 100
    max_bytes: int | None = None


def line_page(holds: Iterable[StoredHold | None], query: ListLine) -> Page[StoredHold]:
    """Return the found holds that wait. (If a hold has pools in other lanes, more may be known of it than of the line.)"""
    waiting = (hold for hold in holds if hold is not None and hold.state is WAITING)
    return page_of(waiting, hold_bytes, query.limit, query.max_bytes)


class ListEntities(Query[list[str]], frozen=True):
    """Names of the entities that holds were placed or confirmed for, in order, after a given one."""

    tenant: str
    prefix: str = ""
    after: str = ""
    limit: int = 100


class ListAccounts(Query[list[str]], frozen=True):
    """Names of the accounts that use anything of a pool, in order, after a given one."""

    tenant: str
    prefix: str = ""
    after: str = ""
    limit: int = 100
