"""A request, its caller and its answer; and the types of ASGI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..core.codec import is_ticket, read_ticket
from ..core.model import Slot
from ..faces._async.kernel import AsyncKernel
from ..wire.fields import Time, at, encode
from ..wire.headers import retry_key
from ..wire.keys import Scope as KeyScope
from ..wire.problems import Problem
from .positions import PlainPositions
from .rates import Cost

if TYPE_CHECKING:
    from ..operations import Operation
    from .application import Running
    from .key_limits import KeyLimit

Headers = Sequence[tuple[bytes, bytes]]

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

    __slots__ = ("actor", "id", "kernel", "limit", "operator", "positions", "scope", "show", "tenant")

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
        self.limit = limit
        """The pools and verbs that the key is limited to."""
        self.operator = not tenant and limit is None
        """Whether it may read what covers all tenants."""
        self.positions = positions
        self.show = positions.position
        """Spells a position for this caller."""

    def cursor(self, given: str | None) -> str | None:
        """The kernel's cursor for one that the caller sent, if it sent one; raises `InvalidRequest`."""
        return None if given is None else self.positions.read(given)


class Answer:
    """An answer: status, body and headers."""

    __slots__ = ("body", "cacheable", "counted", "headers", "status")

    def __init__(self, body: bytes = b"", status: int = 200, headers: Headers = (), *, cacheable: bool = False) -> None:
        self.body, self.status, self.headers = body, status, headers
        self.counted = 0
        """The bytes for which it is counted among the large answers."""
        self.cacheable = cacheable
        """It sets its own cache headers; all other answers are `no-store`."""


class Request:
    """A request as a handler sees it, after all checks."""

    __slots__ = (
        "_op",
        "body",
        "caller",
        "cost",
        "estimated",
        "headers",
        "id",
        "kind",
        "names",
        "operation",
        "paid",
        "person",
        "query",
        "receive",
        "running",
        "scope",
        "unlimited",
    )  # fmt: skip

    caller: Caller
    body: Any
    query: Any

    def __init__(self, scope: Scope, receive: Receive, headers: dict[bytes, bytes], id: str) -> None:
        self.scope, self.receive, self.headers, self.id = scope, receive, headers, id
        self._op: str | None = None
        self.cost = Cost()
        """What its body costs, as soon as that is charged."""
        self.paid: float = 1
        """The tokens that were charged for it."""
        self.estimated: tuple[int, int] | None = None
        """The commands and bytes that it has added to the estimate of what its tenant stores."""
        self.unlimited = False
        """Whether an operator administers the server: then nothing is charged, and nothing waits for a turn."""
        self.kind = "none"
        """The name of the request in metrics."""
        self.names: tuple[str, ...] = ()
        """The variable segments of the path, in order."""
        self.person: str | None = None
        """The actor that a trusted proxy names."""
        self.operation: Operation
        self.running: Running

    @property
    def kernel(self) -> AsyncKernel:
        """The kernel, bound to the caller's tenant."""
        return self.caller.kernel

    def charge_legs(self, legs: int) -> None:
        """Charge the caller for work that the body does not show: the legs of holds that the request names by id, beyond the first of
        each."""
        if legs > 0:
            self.running.pacing.touched(self.caller.tenant, legs)
            self._charge(self.paid + legs)

    def reserve(self, cost: Cost) -> None:
        """Charge what the decoded body costs, before the kernel sees the request; or raise `Problem`."""
        if not self.unlimited:
            self.running.admission.rates.reserve(self.caller.id, self.caller.tenant, cost)
            self.cost, self.paid = cost, cost.tokens

    def estimate(self, commands: int, size: int) -> None:
        """Add what the request may store to the estimate of its tenant."""
        self.running.quotas.add(self.caller.tenant, commands, size)
        self.estimated = commands, size

    def settle(self) -> None:
        """The kernel has not seen the request: give back all but its plain cost."""
        if self.paid > self.cost.plain:
            self._charge(self.cost.plain)
        self.stored_at_most(0)

    def stored_at_most(self, commands: int) -> None:
        """The request was refused: of what was estimated for it, leave these commands."""
        if self.estimated is not None:
            estimated, size = self.estimated
            self.running.quotas.take_back(self.caller.tenant, estimated - commands, size)
            self.estimated = None

    def _charge(self, cost: float) -> None:
        if not self.unlimited:
            self.running.admission.rates.charge(self.caller.id, self.caller.tenant, self.paid, cost)
        self.paid = cost

    def now(self, *seen: Slot | None) -> Time:
        """The engine's time, but not before the slots that the answer has `seen`."""
        latest = self.caller.kernel._executor.now()
        for slot in seen:
            if slot is not None and slot > latest:
                latest = slot
        return at(latest)

    def actor(self, claimed: str | None) -> str:
        """Who makes the change: the person that a trusted proxy names, else whom the caller names, else the API key."""
        if self.person is None:
            return self.caller.actor if claimed is None else claimed
        if claimed is not None and claimed != self.person:
            detail = "the proxy has authenticated another actor: leave `actor` out"
            raise Problem(400, "actor_conflict", detail)
        return self.person

    @property
    def hold_named(self) -> str:
        """The hold that a path names: its id or, if the request carries one, its ticket; the path then has `-` for the id, or the
        same id."""
        name = self.names[0]
        raw = self.headers.get(TICKET)
        if raw is None:
            return name
        given = raw.decode("latin-1").strip()
        parts = read_ticket(given)
        if parts is None:
            detail = "the ticket is cut short or damaged: send the whole text in Holdkit-Ticket"
            raise Problem(400, "ticket_malformed", detail)
        if name not in ("-", parts[0]):
            detail = "the ticket belongs to another hold than the path names: write `-` in the path"
            raise Problem(400, "ticket_malformed", detail)
        return given

    @property
    def op(self) -> str | None:
        """The operation id, from Idempotency-Key."""
        if self._op is None:
            self._op = retry_key(self.headers.get(b"idempotency-key")) or ""
        return self._op or None


def refuse_tickets(names: tuple[str, ...]) -> None:
    """Refuse a ticket in a path, where every access log would keep it."""
    if any(map(is_ticket, names)):
        detail = "a ticket is a secret: send it in the header Holdkit-Ticket, with `-` for the hold in the path"
        raise Problem(400, "ticket_in_path", detail)


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
