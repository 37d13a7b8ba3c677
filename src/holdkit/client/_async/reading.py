"""Looking at a distance: pools, holds, the journal, the server itself. Changes nothing but by `sweep`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import UUID

import httpx
import msgspec

from ...core.model import Pool, State
from ...core.validation import hold_id as check_hold_id
from ...core.validation import text
from ...errors import InvalidRequest
from ...kernel.spelling import hold_id as spelled
from ...kernel.spelling import reference
from ...kernel.surface import Hold, SweepReport, VerifyReport
from ..addresses import path_of
from ..face_wire import read_verify
from ..following import Place
from ..wire import (
    RemoteEntry,
    hold_from,
    pool_answer,
    pool_from,
    read_entries,
    read_entry,
    read_hold,
    read_holds,
    read_pools,
    slot_of,
)
from .calling import AsyncCalling


class AsyncRemoteReads(AsyncCalling):
    """Everything that looks."""

    async def pool(self, id: str) -> Pool:
        """One pool. Raises `PoolNotFound`."""
        return pool_answer(await self._transport.ask("GET", path_of("pools", text(id, "id", 512))))

    async def pools(self, prefix: str = "", *, after: str = "", limit: int = 100) -> list[Pool]:
        """Pools in order of id; give the last id as `after` for the next page."""
        query = {"prefix": prefix, "after": after, "limit": limit}
        answer = await self._transport.ask("GET", "/v1/pools", params=query)
        return [pool_from(wire) for wire in read_pools(answer.content).items]

    async def get(self, hold: Hold | str | UUID) -> Hold:
        """A hold as it is now, without its token. Raises `HoldNotFound` or `HoldRetired`."""
        id, _ = reference(hold, None)
        answer = await self._transport.ask("GET", path_of("holds", check_hold_id(id)))
        return hold_from(read_hold(answer.content), None)

    async def holds(
        self,
        *,
        pool: str | None = None,
        state: State | str | None = None,
        entity: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[Hold]:
        """Holds in order of id; give the last id as `after`."""
        said = {"pool": pool, "state": state, "entity": entity, "after": after, "limit": limit}
        query = {name: str(value) for name, value in said.items() if value is not None}
        answer = await self._transport.ask("GET", "/v1/holds", params=query)
        return [hold_from(wire, None) for wire in read_holds(answer.content).items]

    async def history(self, subject: Hold | str | UUID) -> list[RemoteEntry]:
        """All that happened to a hold (or to a pool, by its id), in journal order."""
        named = subject if isinstance(subject, str) and not subject.startswith("hk1.") else reference(subject, None)[0]
        try:
            path = path_of("holds", check_hold_id(spelled(named)), "history")
        except InvalidRequest:
            path = path_of("pools", text(named, "subject", 512), "history")
        return _entries(await self._transport.ask("GET", path))

    async def journal(self, *, after: str | None = None, limit: int = 1_000) -> list[RemoteEntry]:
        """Up to `limit` entries in order, behind a cursor. Raises `CursorLost`."""
        query = {"limit": str(limit)} if after is None else {"limit": str(limit), "after": after}
        return _entries(await self._transport.ask("GET", "/v1/journal", params=query))

    async def follow(self, *, after: str | None = None, wait: bool = True) -> AsyncIterator[RemoteEntry]:
        """Entries as they happen, none skipped and none twice, behind the cursor `after` or from the beginning; goes on after
        a broken connection, and ends with `wait=False` at the end of the journal. Raises `CursorLost`."""
        place = Place(after)
        async for entry in self._pages(place):
            yield entry
        while wait:
            async for line in self._transport.lines("/v1/events", place.cursor):
                if line.startswith("id: "):
                    if place.cursor is None:  # the journal was empty: look at what came before the stream began
                        async for entry in self._pages(place):
                            yield entry
                    place.cursor = line[4:]
                elif line.startswith('data: {"position"'):
                    entry = read_entry(line[6:])
                    if place.fresh(entry):
                        yield entry
            await self.ready()

    async def _pages(self, place: Place) -> AsyncIterator[RemoteEntry]:
        while page := await self.journal(after=place.cursor):
            for entry in page:
                place.cursor = entry.cursor
                if place.fresh(entry):
                    yield entry

    async def ready(self) -> None:
        """Returns when the server answers; raises when it does not for too long."""
        await self._transport.ask("GET", "/readyz")

    async def sweep(self, limit: int = 500) -> SweepReport:
        """Return what is due, of all tenants: for admins of the default tenant."""
        answer = await self._transport.ask("POST", "/v1/sweep", {"limit": limit})
        told = msgspec.json.decode(answer.content, type=dict[str, Any])
        return SweepReport(told["expired"], slot_of(datetime.fromisoformat(told["server_time"])), told["more"])

    async def verify(self) -> VerifyReport:
        """Fold the whole journal and compare it with every stored row: for admins of the default tenant. Names the first
        thousand differences."""
        answer = await self._transport.ask("POST", "/v1/verify")
        return VerifyReport(read_verify(answer.content).found)

    async def stats(self) -> dict[str, Any]:
        """The server's numbers since it started."""
        answer = await self._transport.ask("GET", "/v1/stats")
        return msgspec.json.decode(answer.content, type=dict[str, Any])


def _entries(answer: httpx.Response) -> list[RemoteEntry]:
    return read_entries(answer.content).items
