"""One request on its way: who asks, for what, and what is answered. Holds no rule."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..core.model import Slot
from ..faces._async.kernel import AsyncKernel
from .answers import at, encode
from .keys import Scope as KeyScope
from .problems import Problem

if TYPE_CHECKING:
    from .application import Running
    from .routing import Route


Headers = Sequence[tuple[bytes, bytes]]

HANG_UP: Final = "holdkit.hang_up"
"""In the state of a request's scope: closes the connection at once."""
JSON: Final = (b"content-type", b"application/json")
DURABILITY: Final = b"holdkit-durability"
"""What the change survives that this answers: one of the words of `Survives`."""
REPLAYED: Final = (b"idempotency-replayed", b"true")
_ONCE: Final = frozenset(
    (b"authorization", b"idempotency-key", b"content-length", b"content-type", b"host", b"if-match", b"last-event-id")
)
"""Headers of which two would be two requests in one."""


class Caller:
    """Whom a key stands for. The tenant comes from here and from nowhere else."""

    __slots__ = ("actor", "id", "kernel", "scope", "tenant")

    def __init__(self, id: str, tenant: str, scope: KeyScope, kernel: AsyncKernel, actor: str) -> None:
        self.id, self.tenant, self.scope, self.kernel, self.actor = id, tenant, scope, kernel, actor


class Answer:
    """What goes back: a status, a body, headers."""

    __slots__ = ("body", "headers", "lasting", "status")

    def __init__(self, body: bytes = b"", status: int = 200, headers: Headers = (), *, lasting: bool = False) -> None:
        self.body, self.status, self.headers = body, status, headers
        self.lasting = lasting
        """It says itself how long it may be kept; all else is never stored."""


class Request:
    """What a handler sees of a request: it has passed every check by then."""

    __slots__ = ("body", "caller", "headers", "id", "kind", "names", "query", "receive", "route", "running", "scope")

    caller: Caller
    body: Any
    query: Any

    def __init__(self, scope: Scope, receive: Receive, headers: dict[bytes, bytes], id: str) -> None:
        self.scope, self.receive, self.headers, self.id = scope, receive, headers, id
        self.kind = "none"
        """What metrics call it."""
        self.names: tuple[str, ...] = ()
        """The variable parts of the path, in order."""
        self.route: Route
        self.running: Running

    @property
    def kernel(self) -> AsyncKernel:
        """The kernel, bound to the caller's tenant."""
        return self.caller.kernel

    def now(self, *seen: Slot | None) -> datetime:
        """The engine's clock, the one authority on time; never before what the answer has `seen`."""
        return at(max([self.caller.kernel.executor.now(), *(slot for slot in seen if slot is not None)]))

    @property
    def op(self) -> str | None:
        """The caller's retry key."""
        raw = self.headers.get(b"idempotency-key")
        if raw is None:
            return None
        said = raw.decode("latin-1").strip()
        if len(said) > 1 and said[0] == said[-1] == '"':
            said = said[1:-1]
        if not 0 < len(said) <= 200 or not said.isascii() or not said.isprintable() or said.isspace():
            raise Problem(
                400, "idempotency_key_malformed", "Idempotency-Key must be 1 to 200 printable ASCII characters"
            )
        return said


def answer(value: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """A value as JSON."""
    return Answer(encode(value), status, (JSON, *headers))


def read_headers(raw: Sequence[tuple[bytes, bytes]], most: int) -> dict[bytes, bytes]:
    """Headers by lower-case name; 431 if they are too many bytes, 400 if one is there twice that must not be."""
    found: dict[bytes, bytes] = {}
    size = 0
    for name, value in raw:
        size += len(name) + len(value)
        if name in found and name in _ONCE:
            raise Problem(400, "header_twice", f"the header {name.decode('latin-1')} may be given once")
        found[name] = value
    if size > most:
        raise Problem(431, "headers_too_large", f"headers have at most {most} bytes")
    return found


Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
