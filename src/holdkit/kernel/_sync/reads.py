# Generated from ../_async/reads.py by tools/gen_sync.py: do not edit.
"""Reads: pools, holds, records, the journal. They count a due leg as returned, and write nothing.

Those of pools, holds and records take `tx=`: in a caller's transaction they see what that has not committed yet.
"""

from __future__ import annotations

from os import PathLike
from typing import Any
from uuid import UUID

from ...core.ladders.finding import missing
from ...core.model import Pool as StoredPool
from ...core.outcomes import Reason, Refusal
from ...core.reading import (
    CountAhead,
    FindHold,
    FindPool,
    ListPools,
)
from ...core.searching import ListLine
from ...core.trees import SEPARATOR, directly_below
from ...core.validation import flag, hold_id, invalid, pool_id, text, whole
from ..answers import refusal_of
from ..arguments import reference
from ..journal import JournalEntry
from ..journal_archive import JournalArchive
from ..pages import JournalPage, Page
from ..pool import Pool
from ..results import Hold
from .journal_reads import archived_history, subject_history
from .searching import Searches, check_after, number_of


class Reads(Searches):
    """Everything that only reads, for one tenant."""

    def pool(self, id: str, *, tx: Any = None) -> Pool:
        """Return one pool. Raises `PoolNotFound`."""
        pool_id(id, "id", faces=True)
        found = self._executor.read(FindPool((self._tenant, id)), tx)
        if found is None:
            raise refusal_of(Refusal(Reason.POOL_NOT_FOUND, id))
        return Pool(found)

    def pools(
        self,
        prefix: str = "",
        *,
        below: str | None = None,
        archived: bool = False,
        after: str | None = None,
        limit: int = 100,
        tx: Any = None,
    ) -> Page[Pool]:
        """Return pools in order of id: those whose id begins with a prefix, or those directly below a pool; archived ones only if
        asked for. To read the next page, pass `next` as `after`. What is deeper below a pool is passed over, some thousands at a
        time, so such a page may be short. With `below`, raises `PoolNotFound`."""
        whole(limit, "limit", 1, 1_000)
        flag(archived, "archived")
        if prefix != "":
            text(prefix, "prefix", 512)
        check_after(after, "after")
        if below is not None:
            if prefix:
                raise invalid("below", "below_ambiguous", "give a prefix, or the pool above, not both")
            return self._children(below, archived, after or "", limit, tx)
        query = ListPools(self._tenant, prefix, after or "", limit + 1, archived=archived)
        rows = self._executor.read(query, tx)
        return Page(map(Pool, rows[:limit]), next=rows[limit - 1].id if len(rows) > limit else None)

    def _children(self, pool: str, archived: bool, after: str, limit: int, tx: Any) -> Page[Pool]:
        prefix = pool_id(pool, "below", faces=True) + SEPARATOR
        children: list[StoredPool] = []
        start = after
        for _ in range(limit + 1):
            rows = self._executor.read(ListPools(self._tenant, prefix, start, limit, archived=archived), tx)
            below, start = directly_below(prefix, rows, start)
            children += below
            if len(rows) < limit and (not rows or start == rows[-1].id):
                if not children and not after:
                    self.pool(pool, tx=tx)  # raises if there is no such pool
                return Page(map(Pool, children[:limit]), next=children[limit - 1].id if len(children) > limit else None)
            if len(children) >= limit:
                return Page(map(Pool, children[:limit]), next=children[limit - 1].id)
        return Page(map(Pool, children), next=start)

    def get(self, hold: Hold | str | UUID, *, tx: Any = None) -> Hold:
        """Return a hold as it is now, without its token. Raises `HoldNotFound` or `HoldRetired`."""
        id, _ = reference(hold, None)
        hold_id(id)
        found = self._executor.read(FindHold((self._tenant, id)), tx)
        if found is None:
            raise refusal_of(missing(id, self._executor.stored_limits(), self._executor.now()))
        return Hold(found)

    def place(self, hold: Hold | str | UUID, *, tx: Any = None) -> int | None:
        """Return the place of a hold in its line: 1 is next; None if it does not wait. Exact to 1,000; a hold farther behind has
        1001. The time grows with the place. Raises `HoldNotFound` or `HoldRetired`."""
        id, _ = reference(hold, None)
        ahead = self._executor.read(CountAhead((self._tenant, hold_id(id))), tx)
        if ahead is None:
            self.get(id, tx=tx)  # raises if there is no such hold
            return None
        return ahead + 1

    def line(self, pool: str, *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[Hold]:
        """Return the holds that wait in the line of a pool, in order: the first is next. To read the next page, pass `next` as
        `after`. Raises `PoolNotFound`."""
        whole(limit, "limit", 1, 1_000)
        key = (self._tenant, pool_id(pool, "pool", faces=True))
        rows = self._executor.read(ListLine(key, number_of(after), limit, self._executor.page_bytes), tx)
        if not rows:
            self.pool(pool, tx=tx)  # raises if there is no such pool
        return Page(map(Hold, rows), next=str(rows[-1].number) if rows.more else None)

    def history(
        self,
        hold: Hold | str | UUID,
        *,
        after: str | None = None,
        limit: int = 1_000,
        archive: str | PathLike[str] | None = None,
    ) -> JournalPage[JournalEntry]:
        """Return up to `limit` entries about a hold, in journal order, after a cursor (the `cursor` of an entry). (`hk.journal.history`
        is the history of a pool.)

        If the first entries are archived, an entry `journal.baseline` stands for them, and `JournalEntry.archived_to` says where they
        are. With `archive`, that directory, they are read from there: all its files, which takes its time. Raises `CursorLost` if the
        journal was cut back.
        """
        whole(limit, "limit", 1, 10_000)
        id = hold_id(reference(hold, None)[0])
        if archive is not None:
            return archived_history(self._executor, self._tenant, id, after, limit, JournalArchive(archive))
        return subject_history(self._executor, self._tenant, id, after, limit)
