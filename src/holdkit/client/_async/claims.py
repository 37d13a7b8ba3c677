"""`remote.claims`: keys that only one holder can have, over HTTP, with the kernel's names, results and exceptions."""

from __future__ import annotations

from typing import Any, Unpack, overload

from ...core.commands import Ttl
from ...core.keyed import CLAIMS, claim_id
from ...core.validation import invalid
from ...errors import InvalidRequest
from ...faces.claim import Claim
from ...faces.keys import claim, claim_pool, key_of
from ...kernel.arguments import Call, CallWithoutReason, check_reason
from ...kernel.results import Hold, Page
from ...wire.claims import ClaimPage
from ..answers import claim_from
from ..requests import duration
from .transport import AsyncRemoteCalls


class AsyncRemoteClaims(AsyncRemoteCalls):
    """The keys of the API key's tenant."""

    async def hold(
        self,
        type: str,
        value: str,
        *,
        ttl: Ttl,
        token: str | None = None,
        metadata: dict[str, Any] | None = None,
        **call: Unpack[Call],
    ) -> Hold:
        """Hold the key `type:value`, for one second to `max_claim_ttl`. Raises `AlreadyClaimed`, with the claim's id and its
        remaining time; the same `token` gets the same hold while it is held."""
        return await self._hold(
            "claim", type=type, value=value, ttl=duration(ttl), token=token, metadata=metadata, call=call,
            request=(claim(type, value),),
        )  # fmt: skip

    async def free(self, type: str, value: str, *, reason: str, **call: Unpack[CallWithoutReason]) -> Claim:
        """Free a confirmed key, by its name. Raises `NotConfirmed` if it is not confirmed. Needs an admin key."""
        key_of(type, value)
        check_reason(reason)
        around: Call = {**call, "reason": reason}
        answer = await self._ask("free_claim", type=type, value=value, call=around)
        return claim_from(self._heard("free_claim", answer), self._clock)

    @overload
    async def get(self, type: str, value: str, *, tx: Any = None) -> Claim | None: ...
    @overload
    async def get(self, *, id: str, tx: Any = None) -> Claim | None: ...
    async def get(
        self, type: str | None = None, value: str | None = None, *, id: str | None = None, tx: Any = None
    ) -> Claim | None:
        """Return the claim of a key, by type and value or by the claim's id, in its present or last life; None if there is none."""
        if (id is None) == (type is None and value is None):
            raise invalid("id", "id_required", "give a type and a value, or id=")
        named = claim_id(key_of(type, value)) if id is None else claim_pool(id).removeprefix(CLAIMS)
        try:
            return claim_from(self._heard("show_claim", await self._ask("show_claim", named, tx=tx)), self._clock)
        except InvalidRequest as missing:
            if missing.code != "claim_not_found":
                raise
            return None

    async def is_taken(self, type: str, value: str, *, tx: Any = None) -> bool:
        """Return whether the key is held or confirmed, so that no other caller can hold it now."""
        found = await self.get(type, value, tx=tx)
        return found is not None and found.taken

    async def list(
        self, *, entity: str | None = None, after: str | None = None, limit: int = 100, tx: Any = None
    ) -> Page[Claim]:
        """Return every claim that is stored, in its present or last life, or the confirmed ones of an entity, in order of id."""
        page: Page[Claim] = Page(next=after or None)
        while True:
            asked: dict[str, Any] = {"after": page.next, "limit": limit - len(page), "entity": entity, "tx": tx}
            document: ClaimPage = self._heard("list_claims", await self._ask("list_claims", **asked))
            page += [claim_from(item, self._clock) for item in document.items]
            page.next = document.next
            if page.next is None or len(page) >= limit:
                return page
