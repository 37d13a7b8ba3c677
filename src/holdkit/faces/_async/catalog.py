"""`hk.admin.catalog`: what faces have stored, without their definitions. For people and dashboards; it only reads, a page at a time.

Of a calendar, budget, rate or resource that an application defines, the engine stores only nights and windows that were held. A sweep
removes those that are over.
"""

from __future__ import annotations

from typing import Final, Literal

from ...core.model import Pool as StoredPool
from ...core.pages import Page
from ...core.reading import FindRecord, ListPools, ListRecords
from ...core.searching import ListAccounts
from ...core.trees import LAST
from ...core.validation import text, whole
from ...core.values import MAX_ID
from ...kernel._async.executor import AsyncExecutor
from ...kernel._async.searching import check_after
from ...kernel.context import one_call
from ...kernel.pool import Pool
from ..capacity import LONG_NAMES
from ..catalog import (
    MAX_CELLS,
    PREFIXES,
    FaceName,
    Present,
    StoredCell,
    StoredResource,
    StoredRoom,
    StoredWindow,
    check_face,
    days_of,
    group_of,
    is_hashed,
    named_prefix,
    part_of,
    resource_texts,
    window_of,
)
from ..saga_records import KIND as SAGAS
from ..seat_map import SECTIONS, SeatMap

STEPS: Final = 1_000
"""Reads that one list of names takes at most."""


@one_call
class AsyncCatalog:
    """What the faces of one tenant have stored."""

    def __init__(self, executor: AsyncExecutor, tenant: str) -> None:
        self._executor, self._tenant = executor, tenant

    async def present(self) -> Present:
        """Return which faces have stored anything."""
        pools = {
            face: bool(await self._pools(PREFIXES[face], limit=1))
            for face in ("claims", "items", "calendars", "budgets", "rates", "resources")
        }
        return Present(
            **pools,
            sections=bool(await self.names("sections", limit=1)),
            sagas=bool(await self._executor.read(ListRecords(self._tenant, SAGAS, limit=1))),
            accounts=bool(await self._executor.read(ListAccounts(self._tenant, limit=1))),
        )

    async def names(self, face: FaceName, *, after: str = "", limit: int = 100) -> Page[str]:
        """Return the names of calendars, budgets, rates, kinds of resources, or sections; for the next page pass `reached` as `after`."""
        whole(limit, "limit", 1, 1_000)
        check_after(after, "after")
        check_face(face)
        return await (self._sections(after, limit) if face == "sections" else self._groups(face, "", after, limit))

    async def _sections(self, after: str, limit: int) -> Page[str]:
        """Return sections that have seats."""
        found: Page[str] = Page()
        while len(found) < limit:
            rows = await self._executor.read(ListRecords(self._tenant, SECTIONS, after, limit))
            found += [row.id for row in rows if SeatMap(row.id, row).head.chunks]
            if not rows.more:
                return Page(
                    found[:limit], more=len(found) > limit, reached=found[limit - 1] if len(found) > limit else None
                )
            after = rows[-1].id
        return Page(found[:limit], more=True, reached=found[limit - 1])

    async def _groups(self, face: str, below: str, after: str, limit: int) -> Page[str]:
        """Return the names that follow a prefix in the ids of pools. Each read begins behind all pools of the name before."""
        prefix = PREFIXES[face] + below
        written = after if face == "resources" else part_of(after) if after else ""
        start = f"{prefix}{written}/{LAST}" if after else ""
        found: Page[str] = Page()
        last = after
        for _ in range(STEPS):
            pools = await self._pools(prefix, start, 1)
            if not pools:
                return found
            name = group_of(face, prefix, pools[0].id)
            if name == last:
                start = pools[0].id  # an id that begins with the last character of all
                continue
            if len(found) == limit:
                break
            found.append(name)
            last = name
            start = pools[0].id[: len(prefix)] + pools[0].id[len(prefix) :].partition("/")[0] + "/" + LAST
        found.more, found.reached = True, last
        return found

    async def calendar(
        self, name: str, begin: str, days: int = 14, *, after: str = "", limit: int = 50
    ) -> Page[StoredRoom]:
        """Return the rooms of a calendar, each with its cells that were held, for `days` days from a date (`"2026-07-01"`). For the next
        page of rooms pass `reached` as `after`."""
        whole(limit, "limit", 1, 100)
        check_after(after, "after")
        first, last = days_of(begin, days)
        below = named_prefix("calendars", name).removeprefix(PREFIXES["calendars"])
        rooms = await self._groups("calendars", below, after, limit)
        found = [await self._room(named_prefix("calendars", name), room, first, last, days) for room in rooms]
        return Page(found, more=rooms.more, reached=rooms.reached)

    async def _room(self, begin: str, room: str, first: str, last: str, days: int) -> StoredRoom:
        prefix = f"{begin}{part_of(room)}/"
        start, cells = prefix + first[:-1] + chr(ord(first[-1]) - 1) + LAST, list[StoredCell]()
        for limit in (days + 1, MAX_CELLS - days - 1):  # one per day; or more, if they are shorter than a day
            pools = await self._pools(prefix, start, limit)
            cells += [StoredCell(pool.id[len(prefix) :], Pool(pool)) for pool in pools if pool.id < prefix + last]
            if len(pools) < limit or pools[-1].id >= prefix + last:
                return StoredRoom(room, tuple(cells), more=False)
            start = pools[-1].id
        return StoredRoom(room, tuple(cells), more=True)

    async def windows(
        self,
        face: Literal["budgets", "rates"],
        name: str,
        *,
        client: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> Page[StoredWindow]:
        """Return the windows of a set of budgets or of a rate that were used, in order of client; or those of one client. For the next
        page pass `reached` as `after`."""
        whole(limit, "limit", 1, 1_000)
        check_after(after, "after")
        check_face(face, ("budgets", "rates"))
        prefix = named_prefix(face, name)
        below = "" if client is None else part_of(text(client, "client", MAX_ID)) + "/"
        pools = await self._pools(prefix + below, after, limit)
        found = [window for window in (window_of(prefix, pool) for pool in pools) if window is not None]
        return Page(found, more=len(pools) == limit, reached=pools[-1].id if len(pools) == limit else None)

    async def resources(self, kind: str, *, after: str = "", limit: int = 100) -> Page[StoredResource]:
        """Return the keys and windows of a kind of resource that were held, in order of pool id. For the next page pass `reached` as
        `after`."""
        whole(limit, "limit", 1, 1_000)
        check_after(after, "after")
        prefix = named_prefix("resources", kind)
        pools = await self._pools(prefix, after, limit)
        found = [StoredResource(*await self._texts(prefix, pool.id), Pool(pool)) for pool in pools]
        return Page(found, more=len(pools) == limit, reached=pools[-1].id if len(pools) == limit else None)

    async def _texts(self, prefix: str, pool: str) -> tuple[str, str]:
        texts = resource_texts(prefix, pool)
        if not is_hashed(texts):
            return texts
        record = await self._executor.read(FindRecord((self._tenant, LONG_NAMES, pool)))
        return texts if record is None else resource_texts(prefix, pool, record.body)

    async def _pools(self, prefix: str, after: str = "", limit: int = 1) -> list[StoredPool]:
        return await self._executor.read(ListPools(self._tenant, prefix, after, limit))
