"""A request, its caller and its answer; and the types of ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..core.model import Slot
from ..faces._async.kernel import AsyncKernel
from ..wire.fields import at, encode
from ..wire.keys import Scope as KeyScope
from .problems import Problem

if TYPE_CHECKING:
    from .application import Running
    from .routing import Route


Headers = Sequence[tuple[bytes, bytes]]

CLOSE_CONNECTION: Final = "holdkit.close_connection"
"""In the state of a request's scope: closes the connection at once."""
JSON: Final = (b"content-type", b"application/json")
DURABILITY: Final = b"holdkit-durability"
"""The durability of the change that this answers: one of `Survives`."""
REPLAYED: Final = (b"idempotency-replayed", b"true")
_ONCE: Final = frozenset(
    (b"authorization", b"idempotency-key", b"content-length", b"content-type", b"host", b"if-match", b"last-event-id")
)
"""Headers that must not occur twice, because proxies could disagree on which one counts."""


class Caller:
    """The caller that an API key belongs to. The tenant of a request comes only from here."""

    __slots__ = ("actor", "id", "kernel", "scope", "tenant")

    def __init__(self, id: str, tenant: str, scope: KeyScope, kernel: AsyncKernel, actor: str) -> None:
        self.id, self.tenant, self.scope, self.kernel, self.actor = id, tenant, scope, kernel, actor


class Answer:
    """An answer: status, body and headers."""

    __slots__ = ("body", "cacheable", "headers", "status")

    def __init__(self, body: bytes = b"", status: int = 200, headers: Headers = (), *, cacheable: bool = False) -> None:
        self.body, self.status, self.headers = body, status, headers
        self.cacheable = cacheable
        """It sets its own cache headers; all other answers are `no-store`."""


class Request:
    """A request as a handler sees it, after all checks."""

    __slots__ = ("body", "caller", "headers", "id", "kind", "names", "query", "receive", "route", "running", "scope")

    caller: Caller
    body: Any
    query: Any

    def __init__(self, scope: Scope, receive: Receive, headers: dict[bytes, bytes], id: str) -> None:
        self.scope, self.receive, self.headers, self.id = scope, receive, headers, id
        self.kind = "none"
        """The name of the request in metrics."""
        self.names: tuple[str, ...] = ()
        """The variable segments of the path, in order."""
        self.route: Route
        self.running: Running

    @property
    def kernel(self) -> AsyncKernel:
        """The kernel, bound to the caller's tenant."""
        return self.caller.kernel

    def charge_legs(self, legs: int) -> None:
        """Charge the caller's rate for legs of holds that the request names by id, beyond the first of each."""
        if legs > 0:
            self.running.admission.rates.charge_answer(self.caller.id, self.caller.tenant, legs)

    def now(self, *seen: Slot | None) -> datetime:
        """The engine's time, but not before the slots that the answer has `seen`."""
        return at(max([self.caller.kernel.executor.now(), *(slot for slot in seen if slot is not None)]))

    @property
    def op(self) -> str | None:
        """The operation id, from Idempotency-Key."""
        raw = self.headers.get(b"idempotency-key")
        if raw is None:
            return None
        key = raw.decode("latin-1").strip()
        if len(key) > 1 and key[0] == key[-1] == '"':
            key = key[1:-1]
        if not 0 < len(key) <= 200 or not key.isascii() or not key.isprintable() or key.isspace():
            raise Problem(
                400, "idempotency_key_malformed", "Idempotency-Key must be 1 to 200 printable ASCII characters"
            )
        return key


def answer(value: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """An answer with a JSON body."""
    return Answer(encode(value), status, (JSON, *headers))


def read_headers(raw: Sequence[tuple[bytes, bytes]], most: int) -> dict[bytes, bytes]:
    """Headers by lower-case name; 431 if they are too large, 400 if one is repeated that must not be."""
    found: dict[bytes, bytes] = {}
    size = 0
    for name, value in raw:
        size += len(name) + len(value)
        if name in found and name in _ONCE:
            raise Problem(400, "header_twice", f"the header {name.decode('latin-1')} may be sent only once")
        found[name] = value
    if size > most:
        raise Problem(431, "headers_too_large", f"the headers are larger than {most} bytes")
    return found


Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
