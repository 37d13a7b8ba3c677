"""Reads over HTTP that search: everything that has a name, holds, the journal in both directions, the names of entities and accounts;
and the history of pools and of the server, from the roll-ups."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ...core.commands import Ttl
from ...core.model import SECOND, Slot, State
from ...core.validation import flag
from ...kernel._async.searching import number_of
from ...kernel.normalise import span
from ...kernel.pages import Page
from ...kernel.results import Hold
from ...kernel.times import moment
from ...wire.history import PoolHistories, PoolHistoryBody, ServerHistory
from ..answers import (
    read_holds,
    read_line,
    read_names,
    read_pool_histories,
    read_server_history,
    row_from,
)
from ..requests import path_of
from .transport import AsyncRemoteCalls, no_transaction


class AsyncRemoteSearches(AsyncRemoteCalls):
    """The reads that search."""

    async def pool_histories(self, pools: Iterable[str], *, window: Ttl = "1h") -> PoolHistories:
        """Use, grants and refusals of up to 100 pools over time, from the server's roll-ups. None stands for a time without data."""
        body = PoolHistoryBody(pools=list(pools), window=_window(window))
        return read_pool_histories((await self._transport.ask("POST", "/v1/stats/pools", body)).content)

    async def server_history(self, *, window: Ttl = "1h") -> ServerHistory:
        """Requests, latencies, queue and errors of all servers of the database over time: for keys of the default tenant."""
        return read_server_history((await self._get("/v1/stats/history", window=_window(window))).content)

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
        no_transaction(tx)
        flag(newest_first, "newest_first")
        found: list[Hold] = []
        while True:
            page = read_holds((await self._get(
                "/v1/holds", pool=pool, state=state, entity=entity, actor=actor, account=account,
                placed_from=moment(placed_from, "placed_from"), placed_to=moment(placed_to, "placed_to"),
                order="newest" if newest_first else None, after=after or None, before=before or None, limit=limit - len(found),
            )).content)  # fmt: skip
            found += [Hold(row_from(one)) for one in page.items]
            # A page may be short because its documents are large. One that is empty was a long search: the caller decides on the next.
            if page.next is None or not page.items or before or len(found) >= limit:
                return Page(found, next=page.next)
            after = page.next

    async def line(self, pool: str, *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[Hold]:
        """Return the holds that wait in the line of a pool, in order: the first is next. To read the next page, pass `next` as
        `after`. Raises `PoolNotFound`."""
        no_transaction(tx)
        path = path_of("pools", pool, "line")
        page = read_line((await self._get(path, after=number_of(after), limit=limit)).content)
        return Page([Hold(row_from(one)) for one in page.items], next=None if page.next is None else str(page.next))

    async def accounts(self, prefix: str = "", *, after: str = "", limit: int = 100, tx: Any = None) -> list[str]:
        """Names of the accounts that use anything of a pool, in order."""
        no_transaction(tx)
        return await self._pages("/v1/accounts", read_names, limit, after=after, prefix=prefix)


def _window(window: Ttl) -> str:
    return f"{span(window, 'window') / SECOND:.6f}s"
