"""`remote.items`: single things, each available, held or confirmed, over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ...core.commands import Ttl
from ...faces.keys import Item, item_legs, item_name, listed
from ...kernel.arguments import Call, CallWithoutReason, check_reason
from ...kernel.results import Hold, Page
from ...wire.items import ItemList, ItemPage
from ..requests import seconds
from .transport import AsyncRemoteCalls, no_transaction


class AsyncRemoteItems(AsyncRemoteCalls):
    """The items of the API key's tenant; at most 1,000 in one call."""

    async def add(self, ids: Iterable[str], **call: Unpack[Call]) -> None:
        """Create items, all or none, as available; those that exist stay as they are. Needs an admin key."""
        await self._ask("add_items", ids=distinct(ids), call=call)

    async def hold(
        self,
        ids: Iterable[str],
        *,
        ttl: Ttl | None,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold all of these items or none. Raises `ItemsTaken`, which names those that others have. The same `token` gets its
        hold on exactly these items again while it is held."""
        asked: dict[str, Any] = {"ids": distinct(ids), "ttl": seconds(ttl), "metadata": metadata}
        return await self._hold("hold_items", token=token, call=call, **asked)

    async def confirm(self, ids: Iterable[str], *, token: str, entity: str | None = None, **call: Unpack[Call]) -> Hold:
        """Confirm the hold that has exactly these items, for a caller that knows only these and the token."""
        return await self._hold("confirm_items", ids=distinct(ids), token=token, entity=entity, call=call)

    async def release(self, ids: Iterable[str], *, token: str, **call: Unpack[Call]) -> Hold:
        """Release the hold that has exactly these items; takes what `confirm` takes."""
        return await self._hold("release_items", ids=distinct(ids), token=token, call=call)

    async def get(self, ids: Iterable[str], *, token: str | None = None, tx: Any = None) -> list[Item]:
        """Return these items in the order given, each with the hold that has it; with `token=`, whether it is `yours`."""
        no_transaction(tx)
        names = listed(ids)
        if not names:
            return []
        found: ItemList = await self._do("show_items", ids=names, token=token)
        return found.items

    async def free(self, ids: Iterable[str], *, reason: str, **call: Unpack[CallWithoutReason]) -> None:
        """Make confirmed items available again, all of these or none; needs an admin key."""
        check_reason(reason)
        around: Call = {**call, "reason": reason}
        await self._ask("free_items", ids=distinct(ids), call=around)

    async def list(self, prefix: str = "", *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[Item]:
        """Return the items whose ids begin with `prefix`, in order of id."""
        page: ItemPage = await self._do("list_items", prefix=prefix, after=after or "", limit=limit, tx=tx)
        return Page(page.items, next=page.next)


def distinct(ids: Iterable[str]) -> list[str]:
    """Return the ids of items that are held or created together, checked as the kernel does."""
    return [item_name(leg.pool) for leg in item_legs(ids)]
