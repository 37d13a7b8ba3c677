"""The directory: what a server knows of API keys and tenants, in memory, so that a wrong key costs no database read.

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
from ._async.tenants import AsyncTenants
from .keys import StoredKey, ended_at, to_remove
from .tenants import StoredTenant

FULL_REFRESH: Final = 60.0
"""Seconds after which everything is read again, whether or not a change was announced."""
REMOVED: Final = 100
"""Ended keys that are removed in one round."""


class Directory:
    """The keys of all tenants, and what operators have said about the tenants."""

    def __init__(self, keys: AsyncKeys, tenants: AsyncTenants, clock: Clock, max_keys: int) -> None:
        self._key_store, self._tenant_store, self._clock, self._max_keys = keys, tenants, clock, max_keys
        self.keys: dict[str, StoredKey] = {}
        """By id."""
        self.tenants: dict[str, StoredTenant] = {}
        """By name, those that have a record."""
        self.disabled: set[str] = set()
        """Tenants that are not admitted. The set stays the same object: the webhook sender has it too."""
        self._by_tenant: dict[str, dict[str, StoredKey]] = {}
        self._changes = -1
        self._read_at = self._removed_at = float("-inf")
        self._refreshing = asyncio.Lock()

    def keys_of(self, tenant: str) -> Collection[StoredKey]:
        """Return the keys of a tenant, also those that have ended."""
        return tuple(self._by_tenant.get(tenant, {}).values())

    def active_keys_of(self, tenant: str) -> int:
        """Return how many keys of a tenant are active."""
        now = self._clock()
        return sum(ended_at(key, now) is None for key in self._by_tenant.get(tenant, {}).values())

    def with_keys(self) -> list[str]:
        """Return the tenants that have keys, without the default tenant."""
        return [tenant for tenant, keys in self._by_tenant.items() if tenant and keys]

    async def refresh(self) -> None:
        """Read what has changed. Callers take turns: otherwise an older read could overwrite a newer one."""
        async with self._refreshing:
            count, changed = await self._key_store.changes()
            missed = count - self._changes
            if time.monotonic() - self._read_at > FULL_REFRESH or not 0 <= missed <= len(changed):
                await self._read_all()
            else:
                for one in dict.fromkeys(changed[len(changed) - missed :]):
                    if one.startswith("="):
                        self._put_tenant(await self._tenant_store.find(one[1:]))
                    else:
                        self._put_key(one, await self._key_store.find(one))
            self._changes = count

    async def _read_all(self) -> None:
        began = time.monotonic()
        keys, tenants = await self._key_store.stored(), await self._tenant_store.stored()
        self.keys, self._by_tenant, self.tenants = {}, {}, {}
        self.disabled.difference_update(self.disabled - {one.name for one in tenants if one.state != "active"})
        for key in keys:
            self._put_key(key.id, key)
        for tenant in tenants:
            self._put_tenant(tenant)
        self._read_at = began

    def _put_key(self, id: str, key: StoredKey | None) -> None:
        before = self.keys.pop(id, None)
        if before is not None:
            del self._by_tenant[before.tenant][id]
        if key is not None:
            self.keys[id] = key
            self._by_tenant.setdefault(key.tenant, {})[id] = key

    def _put_tenant(self, tenant: StoredTenant) -> None:
        if tenant.changed_at is None:  # its record was removed
            self.tenants.pop(tenant.name, None)
        else:
            self.tenants[tenant.name] = tenant
        if tenant.state == "active":
            self.disabled.discard(tenant.name)
        else:
            self.disabled.add(tenant.name)

    async def maintain(self) -> None:
        """Remove ended keys, at most once a minute."""
        if time.monotonic() - self._removed_at >= FULL_REFRESH:
            self._removed_at = time.monotonic()
            await self.remove_ended()

    async def remove_ended(self) -> None:
        """Remove keys that ended long ago, a bounded number at a time."""
        now, left = self._clock(), REMOVED
        for keys in list(self._by_tenant.values()):
            for id in to_remove(keys.values(), self._max_keys, now)[:left]:
                await self._key_store.remove(id)
                left -= 1
        if left < REMOVED:
            await self.refresh()
