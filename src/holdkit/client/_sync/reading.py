# Generated from ../_async/reading.py by tools/gen_sync.py: do not edit.
"""Reads over HTTP: pools, holds, the journal, the server itself. Only `sweep`, `change_limits` and `erase` change anything."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from ...core.validation import flag, invalid, text
from ...core.validation import hold_id as check_hold_id
from ...kernel.arguments import reference
from ...kernel.pages import JournalPage, Page
from ...kernel.pool import Pool
from ...kernel.reports import SweepReport
from ...kernel.results import Hold, JournalEntry
from ...wire.holds import PlaceAnswer
from ...wire.pools import PoolAnswer
from ...wire.system import SweepAnswer
from ..answers import ServerClock, hold_from, pool_from
from .executor import RemoteExecutor
from .journal import not_from_files
from .searching import RemoteSearches
from .transport import Transport

R = TypeVar("R")


class RemoteReads(RemoteSearches):
    """Everything that reads."""

    def __init__(self, transport: Transport, clock: ServerClock) -> None:
        super().__init__(transport, clock)
        self._executor = RemoteExecutor(transport, clock)
        self._limits = self._executor.limits

    def pool(self, id: str, *, tx: Any = None) -> Pool:
        """Return a pool. Raises `PoolNotFound`."""
        return pool_from(self._do("show_pool", text(id, "id", 512), tx=tx))

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
        asked for. To read the next page, pass `next` as `after`. With `below`, raises `PoolNotFound`."""
        flag(archived, "archived")
        if below is not None and prefix:
            raise invalid("below", "below_ambiguous", "give a prefix, or the pool above, not both")
        asked: dict[str, Any] = {"limit": limit, "after": after or None, "tx": tx}
        page: Page[PoolAnswer]
        if below is None:
            page = self._pages("list_pools", prefix=prefix, archived=archived, **asked)
        else:
            page = self._pages("list_children", below, **asked)
        return Page([pool_from(one) for one in page if archived or not one.archived], next=page.next)

    def get(self, hold: Hold | str | UUID, *, tx: Any = None) -> Hold:
        """Return a hold as it is now, without its token. Raises `HoldNotFound` or `HoldRetired`."""
        return hold_from(self._do("show_hold", _id(hold), tx=tx), None)

    def place(self, hold: Hold | str | UUID, *, tx: Any = None) -> int | None:
        """Return the place of a hold in its line: 1 is next; None if it does not wait. Exact to 1,000; any place farther behind is 1001.
        Raises `HoldNotFound` or `HoldRetired`."""
        place: PlaceAnswer = self._do("show_place", _id(hold), tx=tx)
        return place.place

    def history(
        self, hold: Hold | str | UUID, *, after: str | None = None, limit: int = 1_000, archive: object = None
    ) -> JournalPage[JournalEntry]:
        """Return up to `limit` entries about a hold, in journal order, after a cursor. (`remote.journal.history` is the history of a
        pool.) Raises `CursorLost`."""
        not_from_files(archive)
        return self._entry_pages("hold_history", _id(hold), limit=limit, after=after)

    def sweep(self, limit: int = 500) -> SweepReport:
        """Expire what is due, of all tenants, and name it: for admins of the default tenant."""
        swept: SweepAnswer = self._do("sweep", limit=limit)
        return SweepReport(swept.expired, tuple(swept.holds), tuple(swept.tenants), swept.server_time, swept.more)


def _id(hold: Hold | str | UUID) -> str:
    return check_hold_id(reference(hold, None)[0])
