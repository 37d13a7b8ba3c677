"""Searching the journal, shared by all engines: how a search is spread over the lanes, and how far it has come in each; and the
history of one pool."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import msgspec

from ..core.pages import Page, page_of
from ..core.reading import JournalRow, ReadPoolHistory, entry_of, row_bytes, touches
from ..core.searching import FoundEntries, SearchJournal, fits_entry


def written(pool: str) -> str:
    """Return how an entry's text names a pool."""
    return msgspec.json.encode(pool).decode()


class Texts(NamedTuple):
    """The texts that an entry contains if it fits a search; empty: any entry. An entry that contains them need not fit."""

    action: str
    actor: str
    correlation: str

    @classmethod
    def of(cls, query: SearchJournal) -> Texts:
        """Prepare the texts of one search."""
        action = "" if query.action is None else f'"action":{written(query.action.value)}'
        actor = "" if query.actor is None else f'"actor":{written(query.actor)}'
        correlation = "" if query.correlation_id is None else f'"correlation_id":{written(query.correlation_id)}'
        return cls(action, actor, correlation)


LookBetween: TypeAlias = Callable[[int, int, int, int], Page[JournalRow]]
"""Read entries that may fit from a lane, behind a number, up to a number: at most a limit, in the order of the search."""


class _Lane(NamedTuple):
    """What a search has found in one lane."""

    start: int
    rows: list[JournalRow]
    end: int
    """What is left if all of these are taken: entries up to this number or, oldest first, behind it."""


def search_lanes(query: SearchJournal, kept: Mapping[int, tuple[int, int]], look: LookBetween) -> FoundEntries:
    """Search each lane; `kept` has the numbers of its first and last entries. Lanes are merged by time."""
    share = max(1, query.max_scanned // max(1, len(kept)))
    lanes = {lane: _search_lane(query, lane, *bounds, share, look) for lane, bounds in kept.items()}
    timed = ([(entry_of(row).slot, row) for row in found.rows] for found in lanes.values())
    order = (row for _, row in merge(*timed, key=itemgetter(0), reverse=query.newest_first))
    page = page_of(order, row_bytes, query.limit, query.max_bytes)
    reached: dict[int, int] = {}
    for lane, found in lanes.items():
        taken = [row.seq for row in page if row.lane == lane]
        whole = len(taken) == len(found.rows)
        last = taken[-1] - query.newest_first if taken else found.start
        reached[lane] = found.end if whole else last
    page.more = any(
        reached[lane] >= first if query.newest_first else reached[lane] < last for lane, (first, last) in kept.items()
    )
    return FoundEntries(page, reached)


def _search_lane(query: SearchJournal, lane: int, first: int, last: int, share: int, look: LookBetween) -> _Lane:
    """Search a span of one lane: `share` entries or, if the subject is known, `share` entries about it."""
    start = query.start
    begin = max(first - 1, (last if query.newest_first else 0) if start is None else start.get(lane, 0))
    if query.newest_first:
        above, upto = first - 1, min(begin, last)
    else:
        above, upto = begin, last
    if query.subject is None and query.newest_first:
        above = max(above, upto - share)
    elif query.subject is None:
        upto = min(upto, above + share)
    limit = query.limit if query.subject is None else share
    rows: Page[JournalRow] = look(lane, above, upto, limit) if above < upto else Page()
    end = above if query.newest_first else upto
    if rows.more:
        end = rows[-1].seq - query.newest_first
    return _Lane(begin, [row for row in rows if fits_entry(entry_of(row), query)], end)


SPAN: Final = 20_000
"""Entries that one statement looks through, so that none takes long however long the journal is."""

Look: TypeAlias = Callable[[int, int], Page[JournalRow]]
"""Rows whose text names the pool: behind a number, up to a number; a page of them."""


def find_touching(
    query: ReadPoolHistory, after: int, last: int, look: Look, first: Sequence[JournalRow] = ()
) -> Page[JournalRow]:
    """Find the first entries of a lane behind `after` that touched the pool; before them come the rows that stand for archived ones."""

    def touching(after: int) -> Iterator[JournalRow]:
        yield from first
        while after < last:
            upto = min(after + SPAN, last)
            rows = look(after, upto)
            yield from (row for row in rows if touches(entry_of(row), query.pool))
            after = rows[-1].seq if rows.more else upto

    return page_of(touching(after), row_bytes, query.limit, query.max_bytes)
