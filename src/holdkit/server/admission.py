"""Who may pass: keys, the rate of each, and the bound on all. Answered before any work is done.

Keys are looked up in memory alone, so that a stranger's guesses cost no read; a task keeps them current. Unknown, wrong,
revoked and expired keys get one and the same answer, after the same work.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Final

from ..errors import HoldkitError
from ..faces._async.kernel import AsyncKernel
from ._async.keystore import AsyncKeys
from .keys import StoredKey, admits, allows, hash_secret, read_key
from .problems import Problem
from .request import Caller
from .routing import Route
from .settings import Settings

log = logging.getLogger("holdkit.server")

FULL_REFRESH: Final = 60.0
"""Seconds after which all keys are read, news or not."""
_NOBODY: Final = "a" * 16


def operators_only(caller: Caller) -> None:
    """Refuse the key of any tenant but the default one."""
    if caller.tenant:
        raise Problem(403, "operator_only", "this tells of all tenants: it needs a key of the default tenant")


class Bucket:
    """Tokens that come back at a steady rate."""

    __slots__ = ("level", "seen")

    def __init__(self, level: float, seen: float) -> None:
        self.level, self.seen = level, seen


class Admission:
    """Authenticates, bounds rates, and keeps the kernels of tenants at hand."""

    def __init__(self, kernel: AsyncKernel, keys: AsyncKeys, settings: Settings) -> None:
        self.kernel, self.keys, self._settings = kernel, keys, settings
        self._known: dict[str, StoredKey] = {}
        self._changes = -1
        self._read_at = float("-inf")
        self._pepper = b""
        self._callers: OrderedDict[str, tuple[StoredKey, Caller]] = OrderedDict()
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._anybody = Caller("anonymous", "", "admin", kernel, "anonymous")

    async def refresh(self) -> None:
        """See what changed; every minute, read all."""
        self._pepper = self._pepper or await self.keys.pepper()
        changes = await self.keys.changes()
        now = time.monotonic()
        if changes != self._changes or now - self._read_at > FULL_REFRESH:
            self._known = {key.id: key for key in await self.keys.stored()}
            self._changes, self._read_at = changes, now

    async def stay_current(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._settings.key_refresh)
            try:
                await self.refresh()
            except HoldkitError as failed:
                log.warning("keys could not be read, will try again: %s", failed)

    @property
    def empty(self) -> bool:
        """Whether there is no key at all."""
        return not self._known

    def admit(self, headers: dict[bytes, bytes], route: Route) -> Caller:
        """Who it is, if that may call this route now; else a `Problem`."""
        needed = route.scope
        assert needed is not None
        caller = self._anybody if self._settings.open else self._authenticated(headers.get(b"authorization"))
        if not allows(caller.scope, needed):
            raise Problem(403, "scope_too_small", f"this needs a key of scope {needed}")
        if route.operator:
            operators_only(caller)
        self._pay(caller.id)
        return caller

    def _authenticated(self, header: bytes | None) -> Caller:
        if header is None:
            raise Problem(401, "key_required", "send Authorization: Bearer hk_…")
        scheme, _, presented = header.decode("latin-1").partition(" ")
        parts = read_key(presented.strip()) if scheme.lower() == "bearer" and len(presented) < 200 else None
        id, secret = (_NOBODY, "") if parts is None else parts
        key = self._known.get(id)
        digest = hash_secret(id, secret, self._pepper)
        if not admits(key, digest, self.kernel.executor.now()) or key is None:
            raise Problem(401, "key_refused", "this key is unknown, wrong, revoked or expired")
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

    def _pay(self, id: str) -> None:
        rate, burst, now = self._settings.rate, self._settings.burst, time.monotonic()
        bucket = self._buckets.get(id)
        if bucket is None:
            bucket = self._buckets[id] = Bucket(burst, now)
            if len(self._buckets) > 10_000:
                self._buckets.popitem(last=False)
        bucket.level = min(burst, bucket.level + (now - bucket.seen) * rate)
        bucket.seen = now
        if bucket.level < 1:
            wait = (1 - bucket.level) / rate
            raise Problem(429, "rate_exceeded", f"at most {rate:g} requests a second per key", retry_after=wait)
        bucket.level -= 1
