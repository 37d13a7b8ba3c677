"""Reads over HTTP that search: everything that has a name, holds, the journal in both directions, the names of entities and accounts;
and the history of pools and of the server."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ...core.model import Slot, State
from ...core.validation import flag
from ...kernel._async.searching import number_of
from ...kernel.pages import Page
from ...kernel.results import Hold
from ...wire.holds import HoldPage, LinePage
from ..answers import row_from
from ..requests import instant
from .transport import AsyncRemoteCalls


class AsyncRemoteSearches(AsyncRemoteCalls):
    """The reads that search."""

    async def holds(
        self,
        *,
        pool: str | None = None,
        state: State | str | None = None,
        entity: str | None = None,
        actor: str | None = None,
        account: str | None = None,
        placed_from: datetime | Slot | None = None,
        placed_to: datetime | Slot | None = None,
        newest_first: bool = False,
        after: str | None = None,
        before: str | None = None,
        limit: int = 100,
        tx: Any = None,
    ) -> Page[Hold]:
        """Return holds in order of id, or in the opposite order. To read the next page, pass `next` as `after`; with `before` the page
        ends in front of an id, and its `next` is the `before` of the page in front of it."""
        flag(newest_first, "newest_first")
        found: list[Hold] = []
        while True:
            page: HoldPage = await self._do(
                "list_holds", pool=pool, state=state, entity=entity, actor=actor, account=account,
                placed_from=instant(placed_from, "placed_from"), placed_to=instant(placed_to, "placed_to"),
                order="newest" if newest_first else None, after=after or None, before=before or None, limit=limit - len(found), tx=tx,
            )  # fmt: skip
            found += [Hold(row_from(one)) for one in page.items]
            # A page may be short because its documents are large. One that is empty was a long search: the caller decides on the next.
            if page.next is None or not page.items or before or len(found) >= limit:
                return Page(found, next=page.next)
            after = page.next

    async def line(self, pool: str, *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[Hold]:
        """Return the holds that wait in the line of a pool, in order: the first is next. To read the next page, pass `next` as
        `after`. Raises `PoolNotFound`."""
        page: LinePage = await self._do("list_line", pool, after=number_of(after), limit=limit, tx=tx)
        return Page([Hold(row_from(one)) for one in page.items], next=None if page.next is None else str(page.next))
