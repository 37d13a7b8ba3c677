"""`remote.keys`: the API keys of the key's tenant. Only a server has them, so no kernel has these names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, Unpack

from ...core.commands import Ttl
from ...core.validation import text
from ...kernel.arguments import Call
from ...wire.keys import KeyAnswer, KeyInfo, KeyPage, Scope
from ..requests import duration, seconds
from .transport import AsyncRemoteCalls

Listed: TypeAlias = "list[KeyInfo]"


class AsyncRemoteKeys(AsyncRemoteCalls):
    """API keys, for an admin key. Only hashes are stored: a retry of `make` or `rotate` gets the same key with another secret, in place of
    the one that was lost."""

    async def make(
        self,
        name: str,
        *,
        scope: Scope = "hold",
        ttl: Ttl | None = None,
        pools: Iterable[str] = (),
        verbs: Iterable[str] = (),
        **call: Unpack[Call],
    ) -> KeyAnswer:
        """Create an API key. Only this answer, and that of `rotate`, has its text: `key`."""
        return await self._do(
            "make_key", name=name, scope=scope, ttl=seconds(ttl), pools=[*pools], verbs=[*verbs], call=call
        )

    async def list(self) -> Listed:
        """Return all API keys in order of id, without their secrets."""
        page: KeyPage = await self._do("list_keys")
        return page.items

    async def rotate(self, id: str, *, grace: Ttl = "5m", **call: Unpack[Call]) -> KeyAnswer:
        """Give an API key a new secret; the old one stays valid for `grace`."""
        return await self._do("rotate_key", text(id, "key", 64), grace=duration(grace, "grace"), call=call)

    async def revoke(self, id: str, **call: Unpack[Call]) -> KeyInfo:
        """Revoke an API key, within a second on every server."""
        return await self._do("revoke_key", text(id, "key", 64), call=call)
