"""When each API key was used last, so that an operator can find unused keys.

A server notes each use in memory. Once a minute it stores the uses of keys whose stored time is older than `STORE_EVERY`, and of
those that have none: in a few records for all keys, so that a busy server adds about a hundred small entries an hour to the journal,
however many requests it answers. So the time of this server is exact, and that of another one at most `STORE_EVERY` and a minute
old. A server that is killed loses what it has noted since.
"""

from __future__ import annotations

import time
from collections.abc import Container
from typing import Final

from ..core.model import SECOND, Slot
from ..errors import VersionConflict
from ._async.keystore import AsyncKeys

STORE_EVERY: Final[Slot] = 900 * SECOND
ROUND: Final = 60.0
"""Seconds between two rounds of storing."""


class KeyUse:
    """The last uses of all keys, as this server knows them."""

    def __init__(self, keys: AsyncKeys) -> None:
        self._keys = keys
        self.noted: dict[str, Slot] = {}
        """By id of the key. Admission writes to it, with every request."""
        self._stored: dict[str, Slot] = {}
        self._round_at = time.monotonic()

    def last(self, id: str) -> Slot | None:
        """Return when a key was used last; None if it is not known to have been used."""
        return max(self.noted.get(id, 0), self._stored.get(id, 0)) or None

    async def refresh(self) -> None:
        """Read what all servers have stored."""
        self._stored = await self._keys.uses()

    async def maintain(self, existing: Container[str]) -> None:
        """Store the noted uses, at most once a minute."""
        if time.monotonic() - self._round_at >= ROUND:
            self._round_at = time.monotonic()
            await self.store(existing)

    async def store(self, existing: Container[str]) -> None:
        """Store the uses of keys whose stored time is older than `STORE_EVERY`, and drop those of keys that no longer exist."""
        await self.refresh()
        self.noted = {id: slot for id, slot in self.noted.items() if id in existing}
        news = {id: slot for id, slot in self.noted.items() if slot - self._stored.get(id, 0) >= STORE_EVERY}
        for shard in sorted({id[0] for id in news}):
            try:
                await self._keys.put_uses(
                    shard, {id: slot for id, slot in self.noted.items() if id[0] == shard}, existing
                )
            except VersionConflict:
                continue  # another server has just stored its own: the next round is soon enough
