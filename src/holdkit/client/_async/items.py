"""`remote.items`: single things, each available, held or spent, over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack
from uuid import UUID

from ...core.commands import Ttl
from ...core.validation import invalid
from ...faces.keys import Item, item_legs
from ...kernel.context import Call
from ...kernel.normalise import Legs, reference
from ...kernel.results import Hold
from ...wire.items import AddItems, BestItems, EndItems, ReadItems, ReopenItems, ReserveItems
from ..answers import read_items
from ..requests import seconds
from .transport import AsyncRemoteCalls, no_transaction


class AsyncRemoteItems(AsyncRemoteCalls):
    """The items of the API key's tenant; at most 1,000 in one call."""

    async def add(self, ids: Iterable[str], **call: Unpack[Call]) -> None:
        """Create items, all or none, as available; those that exist stay as they are. Needs an admin key."""
        body = AddItems(ids=_distinct(ids), **self._request_fields(call))
        await self._transport.ask("POST", "/v1/items", body, op=call.get("op"))  # adding twice is adding once

    async def reopen(self, ids: Iterable[str], **call: Unpack[Call]) -> None:
        """Make spent items available again, all of these or none; needs a reason and an admin key."""
        await self._post("/v1/items/reopen", ReopenItems(ids=_distinct(ids)), call)

    def legs(self, ids: Iterable[str]) -> Legs:
        """Items as legs: for a hold that has other legs too, or for a command of `apply`."""
        return item_legs(ids)

    async def reserve(
        self,
        ids: Iterable[str],
        *,
        ttl: Ttl | None = None,
        owner: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold all of these or none: `ItemsTaken` names those that others have."""
        body = ReserveItems(ids=_distinct(ids), ttl=seconds(ttl), owner=owner, metadata=metadata)
        return await self._change("/v1/items/reserve", body, call, owner)

    async def best_available(
        self,
        count: int,
        *,
        within: Iterable[str] | None = None,
        prefix: str | None = None,
        adjacent: bool = True,
        ttl: Ttl | None = None,
        owner: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold the first `count` items that are available side by side (or, with `adjacent=False`, anywhere): of the
        list `within`, in its order, or of up to 1,000 that begin with `prefix`. `ItemsTaken` if there are not
        enough. The server finds and holds them in this one request."""
        names = None if within is None else _names(within, "within")
        body = BestItems(
            count=count,
            within=names,
            prefix=prefix,
            adjacent=adjacent,
            ttl=seconds(ttl),
            owner=owner,
            metadata=metadata,
        )
        return await self._change("/v1/items/best", body, call, owner)

    async def release(self, hold: Hold | str | UUID, *, owner: str | None = None, **call: Unpack[Call]) -> Hold:
        """Every item of the hold becomes available. Takes the hold, its ticket, or its id with `owner=`."""
        id, token = reference(hold, owner)
        return await self._change("/v1/items/release", EndItems(hold=id, owner=token), call, token)

    async def finalize(
        self, hold: Hold | str | UUID, *, owner: str | None = None, entity: str | None = None, **call: Unpack[Call]
    ) -> Hold:
        """Every item of the hold is spent, for good."""
        id, token = reference(hold, owner)
        return await self._change("/v1/items/finalize", EndItems(hold=id, owner=token, entity=entity), call, token)

    async def states(self, ids: Iterable[str], *, tx: Any = None) -> list[Item]:
        """The state of each of these, and the hold that has it, in the order given."""
        no_transaction(tx)
        names = _names(ids)
        if not names:
            return []
        answer = await self._transport.ask("POST", "/v1/items/states", ReadItems(ids=names))
        return read_items(answer.content).items

    async def listed(self, prefix: str = "", *, after: str = "", limit: int = 100, tx: Any = None) -> list[Item]:
        """Items in order of id; for the next page pass the last id as `after`."""
        no_transaction(tx)
        answer = await self._get("/v1/items", prefix=prefix, after=after, limit=limit)
        return read_items(answer.content).items


def _distinct(ids: Iterable[str]) -> list[str]:
    """Items that are held or created together, checked as the kernel does."""
    return [leg.label or "" for leg in item_legs(ids)]


def _names(ids: Iterable[str], field: str = "items") -> list[str]:
    if isinstance(ids, str):
        raise invalid(field, f"{field}_malformed", "must be a list of item ids")
    try:
        return list(ids)
    except TypeError:
        raise invalid(field, f"{field}_malformed", "must be a list of item ids") from None
