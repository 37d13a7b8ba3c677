"""A request, its caller and its answer; and the types of ASGI."""

from __future__ import annotations

import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from ..core.codec import read_ticket
from ..core.model import Slot
from ..faces._async.kernel import AsyncKernel
from ..wire.fields import Body, Time, at, encode
from ..wire.headers import given_id
from ..wire.keys import Scope as KeyScope
from ..wire.problems import Problem
from .keys import SCOPES
from .positions import PlainPositions

if TYPE_CHECKING:
    from ..operations import Operation
    from .application import Running
    from .key_limits import KeyLimit
    from .limits import Work

Headers = Sequence[tuple[bytes, bytes]]

_PROCESS: Final = secrets.token_hex(5)
_numbers: Final = count()
"""Request ids are those of the process and a number: random ones would cost a system call each."""
_number: Final = re.compile(rb"[0-9]{1,18}")

CLOSE_CONNECTION: Final = "holdkit.close_connection"
"""In the state of a request's scope: closes the connection at once."""
TICKET: Final = b"holdkit-ticket"
"""Carries the ticket of a hold: id and token."""
WRITE_ANSWER: Final = "holdkit.write_answer"
"""In the state of a request's scope: writes status, headers and body at once; says whether it has."""
JSON: Final = (b"content-type", b"application/json")
DURABILITY: Final = b"holdkit-durability"
"""The durability of the change that this answers: one of `Survives`."""
_ONCE: Final = frozenset(
    (
        b"authorization",
        b"idempotency-key",
        TICKET,
        b"content-length",
        b"content-type",
        b"host",
        b"if-match",
        b"last-event-id",
    )
)
"""Headers that must not occur twice, because proxies could disagree on which one counts."""


class Caller:
    """The caller that an API key belongs to. The tenant of a request comes only from here."""

    __slots__ = ("actor", "id", "kernel", "limit", "operator", "positions", "scope", "scopes", "show", "tenant")

    def __init__(
        self,
        id: str,
        tenant: str,
        scope: KeyScope,
        kernel: AsyncKernel,
        actor: str,
        positions: PlainPositions,
        limit: KeyLimit | None = None,
    ) -> None:
        self.id, self.tenant, self.scope, self.kernel, self.actor = id, tenant, scope, kernel, actor
        self.scopes = SCOPES[: SCOPES.index(scope) + 1]
        """Its scope and those that it includes."""
        self.limit = limit
        """The pools and verbs that the key is limited to."""
        self.operator = not tenant and limit is None
        """Whether it may read what covers all tenants."""
        self.positions = positions
        self.show = positions.position
        """Spells a position for this caller."""

    def cursor(self, text: str | None) -> str | None:
        """Return the kernel's cursor for the one that the caller sent, if any. Raise `InvalidRequest` if it is malformed."""
        return None if text is None else self.positions.read(text)

    def need_admin(self, what: str) -> None:
        """Refuse a caller without scope admin: some fields need more than their route."""
        if "admin" not in self.scopes:
            raise Problem(403, "scope_too_small", f"{what} needs an API key with scope admin")


class Answer(Struct):
    """An answer: body, status and headers."""

    body: bytes = b""
    status: int = 200
    headers: Headers = ()
    cacheable: bool = False
    """It sets its own cache headers; all other answers are `no-store`."""
    counted: int = 0
    """The bytes for which it is counted among the large answers."""


class Request:
    """A request as a handler sees it, after all checks."""

    __slots__ = (
        "body",
        "caller",
        "headers",
        "id",
        "kind",
        "names",
        "op",
        "operation",
        "person",
        "query",
        "receive",
        "running",
        "scope",
        "size",
        "work",
    )  # fmt: skip

    caller: Caller
    operation: Operation
    query: Any
    running: Running
    work: Work

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self.receive = scope, receive
        self.id = f"{_PROCESS}{next(_numbers):06x}"
        self.body: Any = None
        self.headers: dict[bytes, bytes] = {}
        """By name in small letters."""
        self.size: int | None = None
        """The bytes of the body, if the request declares them."""
        self.kind = "none"
        """The name of the request in metrics."""
        self.names: tuple[str, ...] = ()
        """The variable segments of the path, in order."""
        self.op: str | None = None
        """The operation id, from Idempotency-Key."""
        self.person: str | None = None
        """The actor that a trusted proxy names."""

    def read_head(self, max_bytes: int) -> None:
        """Read the headers, or raise `Problem`: 431 if they are too large, 400 if one is repeated that must not be."""
        headers = self.headers
        size = 0
        for name, value in self.scope["headers"]:
            size += len(name) + len(value)
            if name in headers and name in _ONCE:
                raise Problem(400, "header_twice", f"the header {name.decode('latin-1')} may be sent only once")
            headers[name] = value
        if b"x-request-id" in headers:
            self.id = given_id(headers[b"x-request-id"]) or self.id
        if size > max_bytes:
            raise Problem(431, "headers_too_large", f"the headers are larger than {max_bytes} bytes")
        declared = headers.get(b"content-length")
        if declared is not None:
            if not _number.fullmatch(declared):
                raise Problem(400, "content_length_malformed", "Content-Length must be a number")
            self.size = int(declared)

    @property
    def kernel(self) -> AsyncKernel:
        """Return the kernel, bound to the caller's tenant."""
        return self.caller.kernel

    def now(self, *seen: Slot | None) -> Time:
        """Return the engine's time as answers have it, but not before the slots that the answer has `seen`."""
        latest = self.running.clock()
        for slot in seen:
            if slot is not None and slot > latest:
                latest = slot
        return at(latest)

    def call_fields(self, body: Body) -> dict[str, Any]:
        """Return the arguments that every call of the kernel takes."""
        return {
            "op": self.op,
            "actor": self.actor(body.actor),
            "correlation_id": body.correlation_id,
            "reason": body.reason,
        }

    def actor(self, claimed: str | None) -> str:
        """Return the actor of a change: the person that a trusted proxy names, else the actor that the caller names, else the API key."""
        if self.person is None:
            return self.caller.actor if claimed is None else claimed
        if claimed is not None and claimed != self.person:
            detail = "the proxy has authenticated another actor: leave `actor` out"
            raise Problem(400, "actor_conflict", detail)
        return self.person

    @property
    def hold_named(self) -> str:
        """Return the hold that a path names: its id or, if the request carries one, its ticket; the path then has `-` for the id, or the
        ticket's id."""
        name = self.names[0]
        raw = self.headers.get(TICKET)
        if raw is None:
            return name
        ticket = raw.decode("latin-1").strip()
        parts = read_ticket(ticket)
        if parts is None:
            detail = "the ticket is cut short or damaged: send the whole text in Holdkit-Ticket"
            raise Problem(400, "ticket_malformed", detail)
        if name not in ("-", parts[0]):
            detail = "the ticket belongs to another hold than the path names: write `-` in the path"
            raise Problem(400, "ticket_malformed", detail)
        return ticket


def answer(value: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """Return an answer with a JSON body."""
    return Answer(encode(value), status, (JSON, *headers))


Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Handler: TypeAlias = Callable[[Request], Awaitable[Answer]]
"""Answers the requests of one operation."""
