# Generated from ../_async/items.py by tools/gen_sync.py: do not edit.
"""`remote.items`: single things, each available, held or confirmed, over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Unpack

from ...core.commands import Ttl
from ...faces.keys import Item, item_legs, item_name, listed
from ...kernel.context import Call, CallWithoutReason
from ...kernel.results import Hold, Page
from ...wire.items import AddItems, ConfirmItems, FreeItems, HoldItems, ReadItems, ReleaseItems
from ..answers import read_item_page, read_items
from ..requests import seconds
from .transport import RemoteCalls, no_transaction


class RemoteItems(RemoteCalls):
    """The items of the API key's tenant; at most 1,000 in one call."""

    def add(self, ids: Iterable[str], **call: Unpack[Call]) -> None:
        """Create items, all or none, as available; those that exist stay as they are. Needs an admin key."""
        body = AddItems(ids=distinct(ids), **self._request_fields(call))
        self._transport.ask("POST", "/v1/items", body, op=call.get("op"))  # adding twice is adding once

    def hold(
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
        body = HoldItems(ids=distinct(ids), ttl=seconds(ttl), token=token, metadata=metadata)
        return self._change("/v1/items/hold", body, call, token)

    def confirm(self, ids: Iterable[str], *, token: str, entity: str | None = None, **call: Unpack[Call]) -> Hold:
        """Confirm the hold that has exactly these items, for a caller that knows only these and the token."""
        body = ConfirmItems(ids=distinct(ids), token=token, entity=entity)
        return self._change("/v1/items/confirm", body, call, token)

    def release(self, ids: Iterable[str], *, token: str, **call: Unpack[Call]) -> Hold:
        """Release the hold that has exactly these items; takes what `confirm` takes."""
        return self._change("/v1/items/release", ReleaseItems(ids=distinct(ids), token=token), call, token)

    def get(self, ids: Iterable[str], *, token: str | None = None, tx: Any = None) -> list[Item]:
        """Return these items in the order given, each with the hold that has it; with `token=`, whether it is `yours`."""
        no_transaction(tx)
        names = listed(ids)
        if not names:
            return []
        answer = self._transport.ask("POST", "/v1/items/get", ReadItems(ids=names, token=token))
        return read_items(answer.content).items

    def free(self, ids: Iterable[str], *, reason: str, **call: Unpack[CallWithoutReason]) -> None:
        """Make confirmed items available again, all of these or none; needs an admin key."""
        around: Call = {**call, "reason": reason}
        self._post("/v1/items/free", FreeItems(ids=distinct(ids), reason=reason), around)

    def list(self, prefix: str = "", *, after: str | None = None, limit: int = 100, tx: Any = None) -> Page[Item]:
        """Return the items whose ids begin with `prefix`, in order of id."""
        no_transaction(tx)
        page = read_item_page((self._get("/v1/items", prefix=prefix, after=after or "", limit=limit)).content)
        return Page(page.items, next=page.next)


def distinct(ids: Iterable[str]) -> list[str]:
    """Return the ids of items that are held or created together, checked as the kernel does."""
    return [item_name(leg.pool) for leg in item_legs(ids)]
