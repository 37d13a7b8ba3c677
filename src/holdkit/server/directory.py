"""The directory: what a server knows of API keys, in memory, so that a wrong key costs no database read.

A record in the database announces each change (`AsyncKeys.announce`). The directory reads that record every second, and then
only what it names. It reads everything once a minute, and whenever it has missed more changes than the record names; so a change
whose announcement was lost takes effect within that minute.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Final

from ..engines.clocks import Clock
from ._async.keystore import AsyncKeys
from .keys import StoredKey, to_remove

FULL_REFRESH: Final = 60.0
"""Seconds after which everything is read again, whether or not a change was announced."""
REMOVED: Final = 100
"""Ended keys that are removed after one full read."""


class Directory:
    """The keys of all tenants."""

    def __init__(self, store: AsyncKeys, clock: Clock, max_keys: int) -> None:
        self._store, self._clock, self._max_keys = store, clock, max_keys
        self.keys: dict[str, StoredKey] = {}
        """By id."""
        self._by_tenant: dict[str, dict[str, StoredKey]] = {}
        self._changes = -1
        self._read_at = float("-inf")
        self._refreshing = asyncio.Lock()

    def keys_of(self, tenant: str) -> Collection[StoredKey]:
        """The keys of a tenant, also those that have ended."""
        return tuple(self._by_tenant.get(tenant, {}).values())

    async def refresh(self) -> None:
        """Read what has changed. One caller at a time: otherwise an older read could overwrite a newer one."""
        async with self._refreshing:
            count, changed = await self._store.changes()
            missed = count - self._changes
            if time.monotonic() - self._read_at > FULL_REFRESH or not 0 <= missed <= len(changed):
                await self._read_all()
            else:
                for id in dict.fromkeys(changed[len(changed) - missed :]):
                    self._put(id, await self._store.find(id))
            self._changes = count

    async def _read_all(self) -> None:
        began = time.monotonic()
        found = await self._store.stored()
        self.keys, self._by_tenant = {}, {}
        for key in found:
            self._put(key.id, key)
        self._read_at = began

    def _put(self, id: str, key: StoredKey | None) -> None:
        before = self.keys.pop(id, None)
        if before is not None:
            del self._by_tenant[before.tenant][id]
        if key is not None:
            self.keys[id] = key
            self._by_tenant.setdefault(key.tenant, {})[id] = key

    async def remove_ended(self) -> None:
        """Remove keys that ended long ago, a bounded number at a time."""
        now, left = self._clock(), REMOVED
        for keys in list(self._by_tenant.values()):
            for id in to_remove(keys.values(), self._max_keys, now)[:left]:
                await self._store.remove(id)
                left -= 1
        if left < REMOVED:
            await self.refresh()
