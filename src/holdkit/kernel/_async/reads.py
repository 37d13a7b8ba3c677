"""Reads: pools, holds, records, the journal. They count a due leg as returned, and write nothing.

Those of pools, holds and records take `tx=`: in a caller's transaction they see what that has not committed yet.
"""

from __future__ import annotations

from os import PathLike
from typing import Any
from uuid import UUID

from ...core.ladders.finding import missing
from ...core.model import MAX_SLOT, Pool
from ...core.outcomes import Reason, Refusal
from ...core.pages import Page
from ...core.reading import (
    CountAhead,
    FindHold,
    FindPool,
    ListPools,
)
from ...core.searching import ListLine
from ...core.trees import SEPARATOR, directly_below
from ...core.validation import flag, hold_id, pool_id, text, whole
from ...core.values import MAX_ENTITY
from ..answers import refusal_of
from ..journal import JournalEntry
from ..journal_archive import JournalArchive
from ..normalise import reference
from ..results import Hold, JournalPage
from .accounts import AsyncAccount
from .journal_reads import archived_history, subject_history
from .searching import AsyncSearches, check_after


class AsyncReads(AsyncSearches):
    """Everything that only reads, for one tenant."""

    async def pool(self, id: str, *, tx: Any = None) -> Pool:
        """One pool. Raises `PoolNotFound`."""
        pool_id(id, "id", faces=True)
        found = await self._executor.read(FindPool((self._tenant, id)), tx)
        if found is None:
            raise refusal_of(Refusal(Reason.POOL_NOT_FOUND, id))
        return found

    async def pools(
        self, prefix: str = "", *, archived: bool = False, after: str = "", limit: int = 100, tx: Any = None
    ) -> list[Pool]:
        """Pools in order of id, those that are archived only if asked for; give the last id as `after` for the next page."""
        whole(limit, "limit", 1, 1_000)
        flag(archived, "archived")
        check_after(prefix, "prefix")
        check_after(after, "after")
        return await self._executor.read(ListPools(self._tenant, prefix, after, limit, archived=archived), tx)

    async def get(self, hold: Hold | str | UUID, *, tx: Any = None) -> Hold:
        """A hold as it is now, without its token. Raises `HoldNotFound` or `HoldRetired`."""
        id, _ = reference(hold, None)
        hold_id(id)
        found = await self._executor.read(FindHold((self._tenant, id)), tx)
        if found is None:
            raise refusal_of(missing(id, await self._executor.stored_limits(), self._executor.now()))
        return Hold(found)

    async def place(self, hold: Hold | str | UUID, *, tx: Any = None) -> int | None:
        """How many wait in line ahead of a hold, exact to 1,000; None if it does not wait. It takes as long as it counts. Raises
        `HoldNotFound` or `HoldRetired`."""
        id, _ = reference(hold, None)
        ahead = await self._executor.read(CountAhead((self._tenant, hold_id(id))), tx)
        if ahead is None:
            await self.get(id, tx=tx)  # raises if there is no such hold
        return ahead

    async def line(self, pool: str, *, after: int = 0, limit: int = 100, tx: Any = None) -> Page[Hold]:
        """Who waits in the line of a pool, in order, the next one first; for the next page give the number of the last one as `after`, as
        long as there are `more`. Raises `PoolNotFound`."""
        whole(limit, "limit", 1, 1_000)
        whole(after, "after", 0, MAX_SLOT)
        key = (self._tenant, pool_id(pool, "pool", faces=True))
        rows = await self._executor.read(ListLine(key, after, limit, self._executor.page_bytes), tx)
        if not rows:
            await self.pool(pool, tx=tx)  # raises if there is no such pool
        return Page(map(Hold, rows), more=rows.more, size=rows.size)

    async def children(self, pool: str, *, after: str = "", limit: int = 100, tx: Any = None) -> Page[Pool]:
        """The pools directly below a pool, archived ones too, in order of id; for the next page give `reached` as `after`, as long as there
        are `more`. What is below these is passed over, some thousands at a time, so a page may be short. Raises `PoolNotFound`."""
        whole(limit, "limit", 1, 1_000)
        check_after(after, "after")
        prefix = pool_id(pool, "pool", faces=True) + SEPARATOR
        found: Page[Pool] = Page()
        start = after
        for _ in range(limit + 1):
            rows = await self._executor.read(ListPools(self._tenant, prefix, start, limit, archived=True), tx)
            below, start = directly_below(prefix, rows, start)
            found += below
            if len(rows) < limit and (not rows or start == rows[-1].id):
                if not found and not after:
                    await self.pool(pool, tx=tx)  # raises if there is no such pool
                return found if len(found) <= limit else Page(found[:limit], more=True, reached=found[limit - 1].id)
            if len(found) >= limit:
                return Page(found[:limit], more=True, reached=found[limit - 1].id)
        found.more, found.reached = True, start
        return found

    def account(self, name: str) -> AsyncAccount:
        """What one account uses: ``hk.account("customer:7").usage()``."""
        return AsyncAccount(self._executor, self._tenant, text(name, "account", MAX_ENTITY))

    async def history(
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
            return await archived_history(self._executor, self._tenant, id, after, limit, JournalArchive(archive))
        return await subject_history(self._executor, self._tenant, id, after, limit)
