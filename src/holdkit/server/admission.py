"""Admission: authenticates the API key, checks its scope, and limits its rate, before any work is done.

Keys are looked up in memory only, so that a wrong key costs no database read; a task keeps them current. Unknown, wrong,
revoked and expired keys all get the same answer after the same work.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ..core.validation import invalid
from ..errors import HoldkitError
from ..faces._async.kernel import AsyncKernel
from ..operations import Operation
from ..wire.problems import Problem
from ._async.keystore import AsyncKeys
from ._async.tenants import AsyncTenants
from .directory import Directory
from .key_limits import KeyLimit
from .key_use import KeyUse
from .keys import StoredKey, admits, allows, hash_secret, read_key
from .positions import PlainPositions, SealedPositions
from .rates import Rates
from .request import Caller, Scope
from .settings import Settings

log = logging.getLogger("holdkit.server")

_NO_ID: Final = "a" * 16
MAX_PERSON: Final = 256
"""Characters of the name that a trusted proxy gives a person."""


def operators_only(caller: Caller) -> None:
    """Refuse the key of any tenant but the default one, and limited keys."""
    if not caller.operator:
        detail = "this covers all tenants and needs an API key of the default tenant, without a limit to pools or verbs"
        raise Problem(403, "operator_only", detail)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """A network that a setting names, or `InvalidRequest`."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise invalid(
            "proxy.trusted", "network_malformed", f"{text!r} is not a network such as 10.0.0.5/32: {error}"
        ) from None


class Admission:
    """Authenticates callers, limits their rates, and caches a kernel per key."""

    def __init__(self, kernel: AsyncKernel, keys: AsyncKeys, tenants: AsyncTenants, settings: Settings) -> None:
        self.kernel, self.keys, self._settings = kernel, keys, settings
        self.use = KeyUse(keys)
        self.directory = Directory(keys, tenants, kernel._executor.now, settings.tenants.max_keys)
        self._pepper = b""
        self._callers: OrderedDict[str, tuple[StoredKey, Caller]] = OrderedDict()
        self.rates = Rates(settings)
        self._actor_header = settings.proxy.actor_header.lower().encode()
        self.trusted = [_network(one) for one in settings.proxy.trusted]
        """The networks of authenticating proxies."""
        anybody = AsyncKernel(kernel._executor.for_client("", settings.answers.page_bytes))
        self._anonymous = Caller("anonymous", "", "admin", anybody, "anonymous", PlainPositions())
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
            await asyncio.sleep(self._settings.upkeep.key_refresh)
            try:
                await self.refresh()
            except HoldkitError as failed:
                log.warning("cannot read the API keys, will retry: %s", failed, extra={"event": "keys_unread"})
                self.on_refresh()  # a key expires all the same

    @property
    def empty(self) -> bool:
        """Whether there is no API key at all."""
        return not self.directory.keys

    def allowed(self, headers: dict[bytes, bytes], operation: Operation) -> Caller:
        """The caller, if it may call this operation now; raises `Problem` otherwise. Its rate is neither checked nor charged."""
        needed = operation.scope
        assert needed is not None
        caller = self._anonymous if self._settings.open else self._authenticated(headers.get(b"authorization"))
        if caller.tenant in self.directory.disabled:
            raise Problem(403, "tenant_disabled", "an operator has disabled this tenant: ask who runs the server")
        if not allows(caller.scope, needed):
            raise Problem(403, "scope_too_small", f"this needs an API key with scope {needed}")
        if caller.limit is not None:
            caller.limit.admit(operation.name)
        if operation.operator:
            operators_only(caller)
        return caller

    def person(self, scope: Scope, headers: dict[bytes, bytes]) -> str | None:
        """The actor that a trusted proxy names. The header is ignored from any other peer: callers could choose it."""
        raw = headers.get(self._actor_header)
        peer = scope.get("client")
        if raw is None or not peer or not self._is_trusted(peer[0]):
            return None
        if [name for name, _ in scope["headers"]].count(
            self._actor_header
        ) > 1:  # the proxy has added to the caller's own
            raise Problem(
                400, "header_twice", "the header that names the actor may be sent only once: the proxy must replace it"
            )
        try:
            name = raw.decode().strip()
        except UnicodeDecodeError:
            name = ""
        if not 0 < len(name) <= MAX_PERSON or not name.isprintable():
            detail = f"the header that names the actor must have 1 to {MAX_PERSON} printable characters, as UTF-8"
            raise Problem(400, "actor_header_malformed", detail)
        return f"user:{name}"

    def _is_trusted(self, peer: str) -> bool:
        try:
            address = ipaddress.ip_address(peer)
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)  # how a socket for both families shows an IPv4 peer
        return any((mapped or address) in network for network in self.trusted)

    def positions(self, tenant: str, *, sealed: bool = False) -> PlainPositions:
        """How the callers and webhooks of a tenant see positions and cursors: readable for the default tenant, whose keys are
        operators' unless they are limited, sealed for the others."""
        if not tenant and not sealed:
            return PlainPositions()
        return SealedPositions(self._pepper, tenant, self.kernel._executor.engine.lanes)

    def _authenticated(self, header: bytes | None) -> Caller:
        if header is None:
            raise Problem(401, "key_required", "an API key is required: send Authorization: Bearer hk_…")
        scheme, _, presented = header.decode("latin-1").partition(" ")
        parts = read_key(presented.strip()) if scheme.lower() == "bearer" and len(presented) < 200 else None
        id, secret = (_NO_ID, "") if parts is None else parts
        key = self.directory.keys.get(id)
        digest = hash_secret(id, secret, self._pepper)
        now = self.kernel._executor.now()
        if not admits(key, digest, now) or key is None:
            raise Problem(401, "key_refused", "the API key is unknown, wrong, revoked or expired")
        self.use.noted[id] = now
        return self._caller(key)

    def _caller(self, key: StoredKey) -> Caller:
        found = self._callers.get(key.id)
        if found is not None and found[0] is key:
            return found[1]
        page_bytes = self._settings.answers.page_bytes
        kernel = AsyncKernel(self.kernel._executor.for_client(key.id, page_bytes, key.pools), key.tenant)
        limit = KeyLimit(key) if key.limited else None
        positions = self.positions(key.tenant, sealed=limit is not None)
        caller = Caller(key.id, key.tenant, key.scope, kernel, f"api_client:{key.id}", positions, limit)
        self._callers[key.id] = (key, caller)
        if len(self._callers) > 10_000:
            self._callers.popitem(last=False)
        return caller
