"""Reads over HTTP: pools, holds, the journal, the server itself. Only `sweep`, `change_limits` and `erase` change anything."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from ...core.validation import flag, invalid, text
from ...core.validation import hold_id as check_hold_id
from ...kernel.normalise import reference
from ...kernel.pages import JournalPage, Page
from ...kernel.pool import Pool
from ...kernel.reports import SweepReport
from ...kernel.results import Hold, JournalEntry
from ...wire.system import SweepBody
from ..answers import (
    ServerClock,
    hold_from,
    pool_from,
    pool_in,
    read_hold,
    read_place,
    read_pools,
    read_sweep,
)
from ..requests import path_of
from .executor import AsyncRemoteExecutor
from .journal import not_from_files
from .searching import AsyncRemoteSearches
from .transport import AsyncTransport, no_transaction

R = TypeVar("R")


class AsyncRemoteReads(AsyncRemoteSearches):
    """Everything that reads."""

    def __init__(self, transport: AsyncTransport, clock: ServerClock) -> None:
        super().__init__(transport, clock)
        self._executor = AsyncRemoteExecutor(transport, clock)
        self._limits = self._executor.limits

    async def pool(self, id: str, *, tx: Any = None) -> Pool:
        """One pool. Raises `PoolNotFound`."""
        no_transaction(tx)
        return pool_in(await self._transport.ask("GET", path_of("pools", text(id, "id", 512))))

    async def pools(
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
        asked for. To read the next page, pass `next` as `after`. With `below`, raises `PoolNotFound`."""
        no_transaction(tx)
        flag(archived, "archived")
        if below is None:
            page = await self._pages(
                "/v1/pools", read_pools, limit, after=after or None, prefix=prefix, archived=archived
            )
        elif prefix:
            raise invalid("below", "below_ambiguous", "give a prefix, or the pool above, not both")
        else:
            page = await self._pages(path_of("pools", below, "children"), read_pools, limit, after=after or None)
        return Page([pool_from(one) for one in page if archived or not one.archived], next=page.next)

    async def get(self, hold: Hold | str | UUID, *, tx: Any = None) -> Hold:
        """A hold as it is now, without its token. Raises `HoldNotFound` or `HoldRetired`."""
        no_transaction(tx)
        id, _ = reference(hold, None)
        answer = await self._transport.ask("GET", path_of("holds", check_hold_id(id)))
        return hold_from(read_hold(answer.content), None)

    async def place(self, hold: Hold | str | UUID, *, tx: Any = None) -> int | None:
        """Return the place of a hold in its line: 1 is next; None if it does not wait. Exact to 1,000; whoever is farther behind has
        1001. Raises `HoldNotFound` or `HoldRetired`."""
        no_transaction(tx)
        id, _ = reference(hold, None)
        return read_place((await self._get(path_of("holds", check_hold_id(id), "place"))).content).place

    async def history(
        self, hold: Hold | str | UUID, *, after: str | None = None, limit: int = 1_000, archive: object = None
    ) -> JournalPage[JournalEntry]:
        """Return up to `limit` entries about a hold, in journal order, after a cursor. (`remote.journal.history` is the history of a
        pool.) Raises `CursorLost`."""
        not_from_files(archive)
        path = path_of("holds", check_hold_id(reference(hold, None)[0]), "history")
        return await self._entry_pages(path, limit, after)

    async def sweep(self, limit: int = 500) -> SweepReport:
        """Expire what is due, of all tenants, and name it: for admins of the default tenant."""
        answer = await self._transport.ask("POST", "/v1/sweep", SweepBody(limit=limit))
        swept = read_sweep(answer.content)
        return SweepReport(swept.expired, tuple(swept.holds), tuple(swept.tenants), swept.server_time, swept.more)
