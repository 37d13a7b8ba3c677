"""Admission: authenticates the API key, checks its scope, and limits its rate, before any work is done.

Keys are looked up in memory only, so that a wrong key costs no database read; a task keeps them current. Unknown, wrong,
revoked and expired keys all get the same answer after the same work.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ..errors import HoldkitError
from ..faces._async.kernel import AsyncKernel
from ._async.keystore import AsyncKeys
from ._async.tenants import AsyncTenants
from .directory import Directory
from .keys import StoredKey, admits, allows, hash_secret, read_key
from .problems import Problem
from .rates import Rates
from .request import Caller
from .routing import Route
from .settings import Settings

log = logging.getLogger("holdkit.server")

_NO_ID: Final = "a" * 16


def operators_only(caller: Caller) -> None:
    """Refuse the key of any tenant but the default one."""
    if caller.tenant:
        raise Problem(403, "operator_only", "this covers all tenants and needs an API key of the default tenant")


class Admission:
    """Authenticates callers, limits their rates, and caches a kernel per key."""

    def __init__(self, kernel: AsyncKernel, keys: AsyncKeys, tenants: AsyncTenants, settings: Settings) -> None:
        self.kernel, self.keys, self._settings = kernel, keys, settings
        self.directory = Directory(keys, tenants, kernel.executor.now, settings.max_keys)
        self._pepper = b""
        self._callers: OrderedDict[str, tuple[StoredKey, Caller]] = OrderedDict()
        self.rates = Rates(settings)
        self._anonymous = Caller("anonymous", "", "admin", kernel, "anonymous")
        self.on_refresh: Callable[[], None] = lambda: None
        """Called after each refresh, whether or not anything changed."""

    async def refresh(self) -> None:
        """Learn of changed keys."""
        self._pepper = self._pepper or await self.keys.pepper()
        await self.directory.refresh()
        self.on_refresh()

    async def stay_current(self) -> None:
        """Refresh the keys until cancelled."""
        while True:
            await asyncio.sleep(self._settings.key_refresh)
            try:
                await self.refresh()
            except HoldkitError as failed:
                log.warning("cannot read the API keys, will retry: %s", failed)
                self.on_refresh()  # a key expires all the same

    @property
    def empty(self) -> bool:
        """Whether there is no API key at all."""
        return not self.directory.keys

    def admit(self, headers: dict[bytes, bytes], route: Route) -> Caller:
        """The caller, if it may call this route now; raises `Problem` otherwise."""
        caller = self.allowed(headers, route)
        self.rates.charge(caller.id, caller.tenant, 1)
        return caller

    def allowed(self, headers: dict[bytes, bytes], route: Route) -> Caller:
        """The same, not charged to the caller's rate: for requests that last, which are checked again while they do."""
        needed = route.scope
        assert needed is not None
        caller = self._anonymous if self._settings.open else self._authenticated(headers.get(b"authorization"))
        if caller.tenant in self.directory.disabled:
            raise Problem(403, "tenant_disabled", "an operator has disabled this tenant: ask who runs the server")
        if not allows(caller.scope, needed):
            raise Problem(403, "scope_too_small", f"this needs an API key with scope {needed}")
        if route.operator:
            operators_only(caller)
        return caller

    def _authenticated(self, header: bytes | None) -> Caller:
        if header is None:
            raise Problem(401, "key_required", "an API key is required: send Authorization: Bearer hk_…")
        scheme, _, presented = header.decode("latin-1").partition(" ")
        parts = read_key(presented.strip()) if scheme.lower() == "bearer" and len(presented) < 200 else None
        id, secret = (_NO_ID, "") if parts is None else parts
        key = self.directory.keys.get(id)
        digest = hash_secret(id, secret, self._pepper)
        if not admits(key, digest, self.kernel.executor.now()) or key is None:
            raise Problem(401, "key_refused", "the API key is unknown, wrong, revoked or expired")
        return self._caller(key)

    def _caller(self, key: StoredKey) -> Caller:
        found = self._callers.get(key.id)
        if found is not None and found[0] is key:
            return found[1]
        kernel = AsyncKernel(self.kernel.executor.for_client(key.id), key.tenant)
        caller = Caller(key.id, key.tenant, key.scope, kernel, f"api_client:{key.id}")
        self._callers[key.id] = (key, caller)
        if len(self._callers) > 10_000:
            self._callers.popitem(last=False)
        return caller
