"""Admission: authenticates the API key and checks its scope, before any work is done.

Keys are looked up in memory only, so that a wrong key costs no database read; a task keeps them current. Unknown, wrong,
revoked and expired keys all get the same answer after the same work.

A key that was admitted is remembered by a digest under a secret of this process, so that its next requests need no hash of the secret that it
presents. The presented text is not kept. An entry counts until the secret expires, and while the record of the key is the same object: a
revoked, rotated or changed key has another one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import secrets
from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple

from ..core.model import MAX_SLOT, Slot
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
from .keys import StoredKey, admits, hash_secret, read_key
from .positions import PlainPositions, SealedPositions
from .request import Caller, Request
from .settings import Settings

log = logging.getLogger("holdkit.server")

_NO_ID: Final = "a" * 16
MAX_PERSON: Final = 256
"""Characters of the name that a trusted proxy gives a person."""
MAX_PRESENTED: Final = 200
"""Characters of a key that is looked at."""
MAX_KNOWN: Final = 10_000
"""Admitted keys that are remembered."""
_LOOPBACK: Final = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\]|testserver)(:\d{1,5})?", re.IGNORECASE)


class KnownKey(NamedTuple):
    """A key that was admitted."""

    key: StoredKey
    until: Slot
    """When the secret that was presented expires."""
    caller: Caller


def operators_only(caller: Caller) -> None:
    """Refuse the key of any tenant but the default one, and limited keys."""
    if not caller.operator:
        detail = "this covers all tenants and needs an API key of the default tenant, without a limit to pools or verbs"
        raise Problem(403, "operator_only", detail)


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return the network that a setting names. Raise `InvalidRequest` if it is none."""
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise invalid(
            "proxy.trusted", "network_malformed", f"{text!r} is not a network such as 10.0.0.5/32: {error}"
        ) from None


class Admission:
    """Authenticates callers, and keeps a kernel for each key."""

    def __init__(self, kernel: AsyncKernel, keys: AsyncKeys, tenants: AsyncTenants, settings: Settings) -> None:
        self.kernel, self.keys, self._settings = kernel, keys, settings
        self.use = KeyUse(keys)
        self.directory = Directory(keys, tenants, kernel._executor.now, settings.tenants.max_keys)
        self._clock = kernel._executor.engine.clock
        self._pepper = b""
        self._digest_key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, KnownKey] = OrderedDict()
        """By the digest of the presented key."""
        self._actor_header = settings.proxy.actor_header.lower().encode()
        self.trusted = [_network(one) for one in settings.proxy.trusted]
        """The networks of authenticating proxies."""
        anybody = AsyncKernel(kernel._executor.for_client("", settings.answers.page_bytes))
        self._anonymous = Caller("anonymous", "", "admin", anybody, "anonymous", PlainPositions())
        self.on_refresh: Callable[[], None] = lambda: None
        """Called after each refresh, whether or not anything changed."""

    async def refresh(self) -> None:
        """Read the keys and tenants that have changed."""
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
        """Return whether there is no API key at all."""
        return not self.directory.keys

    def caller_of(self, request: Request, operation: Operation) -> Caller | None:
        """Authenticate the caller of a request, if the operation needs an API key. Raise `Problem` if that fails."""
        if self._settings.open:
            _check_host(request.headers)
        if operation.scope is None:
            return None
        caller = request.caller = self.allowed(request.headers, operation)
        if self.trusted:
            request.person = self._person(request)
        return caller

    def allowed(self, headers: dict[bytes, bytes], operation: Operation) -> Caller:
        """Return the caller if it may call this operation now; otherwise raise `Problem`."""
        needed = operation.scope
        assert needed is not None
        caller = self._anonymous if self._settings.open else self._authenticated(headers.get(b"authorization"))
        if caller.tenant in self.directory.disabled:
            raise Problem(403, "tenant_disabled", "an operator has disabled this tenant: ask who runs the server")
        if needed not in caller.scopes:
            raise Problem(403, "scope_too_small", f"this needs an API key with scope {needed}")
        if caller.limit is not None:
            caller.limit.admit(operation.name)
        if operation.operator:
            operators_only(caller)
        return caller

    def _person(self, request: Request) -> str | None:
        """Return the actor that a trusted proxy names. Ignore the header from any other peer, because callers could choose it."""
        raw = request.headers.get(self._actor_header)
        peer = request.scope.get("client")
        if raw is None or not peer or not self._is_trusted(peer[0]):
            return None
        names = [name for name, _ in request.scope["headers"]]
        if names.count(self._actor_header) > 1:  # the proxy has added to the caller's own
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
        """Return how the callers and webhooks of a tenant see positions and cursors: readable for the default tenant, whose keys are
        operators' unless they are limited, sealed for the others."""
        if not tenant and not sealed:
            return PlainPositions()
        return SealedPositions(self._pepper, tenant, self.kernel._executor.engine.lanes)

    def _authenticated(self, header: bytes | None) -> Caller:
        if header is None:
            raise Problem(401, "key_required", "an API key is required: send Authorization: Bearer hk_…")
        scheme, _, presented = header.partition(b" ")
        presented = presented.strip()
        if scheme.lower() != b"bearer" or len(presented) > MAX_PRESENTED:
            presented = b""
        digest = blake2b(presented, key=self._digest_key, digest_size=32).digest()
        known, now = self._known.get(digest), self._clock()
        if known is None or now >= known.until or self.directory.keys.get(known.key.id) is not known.key:
            known = self._known[digest] = self._check_key(presented.decode("latin-1"), now)
            if len(self._known) > MAX_KNOWN:
                self._known.popitem(last=False)
        self.use.noted[known.key.id] = now
        return known.caller

    def _check_key(self, presented: str, now: Slot) -> KnownKey:
        """Find the key that was presented, or raise `Problem`. Every wrong key costs equal work, so that time reveals nothing."""
        id, secret = read_key(presented) or (_NO_ID, "")
        key = self.directory.keys.get(id)
        secret_hash = hash_secret(id, secret, self._pepper)
        if not admits(key, secret_hash, now) or key is None:
            raise Problem(401, "key_refused", "the API key is unknown, wrong, revoked or expired")
        ends = [key.expires_at, None if secret_hash == key.secret_hash else key.old_until]
        return KnownKey(key, min([end for end in ends if end is not None], default=MAX_SLOT), self._caller(key))

    def _caller(self, key: StoredKey) -> Caller:
        page_bytes = self._settings.answers.page_bytes
        kernel = AsyncKernel(self.kernel._executor.for_client(key.id, page_bytes, key.pools), key.tenant)
        limit = KeyLimit(key) if key.limited else None
        positions = self.positions(key.tenant, sealed=limit is not None)
        return Caller(key.id, key.tenant, key.scope, kernel, f"api_client:{key.id}", positions, limit)


def _check_host(headers: dict[bytes, bytes]) -> None:
    """Protect an open server from other web pages in the user's browser: accept loopback host names only, and no foreign origin."""
    host, origin = headers.get(b"host", b""), headers.get(b"origin")
    if not _LOOPBACK.fullmatch(host):
        raise Problem(403, "host_refused", "an open server answers requests to localhost only")
    if origin is not None and origin.lower() not in (b"http://" + host.lower(), b"https://" + host.lower()):
        raise Problem(403, "origin_refused", "an open server answers requests of its own pages only")
