"""What is true of an operation: one verb or read that a server offers, declared once. Routes, the OpenAPI document, the client and the
command line follow from the table in this package."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from msgspec import Struct
from msgspec.structs import force_setattr

from ..core.outcomes import Reason
from ..wire.fields import Nothing
from ..wire.keys import Scope

_ADMINISTRATION: Final = ("/v1/keys", "/v1/tenants", "/v1/limits")


class Operation(Struct, frozen=True, kw_only=True):
    """One verb or read. A caller needs an API key unless `scope` is None."""

    name: str
    """Also its name in metrics, in the rules of limited keys, and its `operationId`."""
    method: Literal["GET", "POST", "PUT", "DELETE"]
    path: str
    """Such as `/v1/holds/{hold}/confirm`."""
    tag: str
    """Its group in the OpenAPI document."""
    summary: str
    says: str = ""
    """What a caller has to know beyond the summary."""
    answer: Any
    """The type of the answer's body."""
    scope: Scope | None = "read"
    """The scope that an API key must have; None: no key is required."""
    operator: bool = False
    """It covers all tenants: for keys of the default tenant only."""
    body: type[Struct] | None = None
    body_optional: bool = False
    query: type[Struct] = Nothing
    retry_key: Literal["required", "optional"] | None = None
    """Whether `Idempotency-Key` is required or optional."""
    precondition: bool = False
    """Whether `If-Match` is supported."""
    status: int = 200
    reasons: tuple[str, ...] = ()
    """The refusals that it may answer."""
    media: str = "application/json"
    calls: str = ""
    """The kernel's method that it calls with the fields of its body or query, which are named like the parameters. Its handler follows
    from that (`server/handlers/plain.py`); an operation without it has one of its own."""
    methods: tuple[str, ...] = ()
    """The methods of a kernel, or of a client alone, that do the same."""
    command: str = ""
    """The command of the command line that does the same."""
    no_command: str = ""
    """Where there is none: why."""
    counted: str = ""
    """The field of the body that it costs a token for each element of: a list, in which a command counts as its legs, or a number. An
    operation without it costs one token, and those of its bytes."""
    searches: bool = False
    """Whether it reads all seats of a section, which costs as much as some twenty holds."""
    administers: bool = False
    """Whether an operator's key reaches it however much its tenant has used up: an operator who manages keys, tenants and limits must be
    able to stop what is using it up. Follows from the path."""
    changes: bool = False
    """Whether it may change something: its answer then carries the durability header. Follows from method and scope."""

    def __post_init__(self) -> None:
        force_setattr(self, "administers", self.path.startswith(_ADMINISTRATION))
        force_setattr(self, "changes", self.method != "GET" and self.scope not in (None, "read"))

    @property
    def takes_ticket(self) -> bool:
        """Whether the header Holdkit-Ticket may name the hold."""
        named = self.path.startswith("/v1/holds/{hold}/")
        return named and (self.changes or self.path.startswith("/v1/holds/{hold}/place"))


def without_windows(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """Return the refusals of a command that a request can get which names no window."""
    return tuple(reason for reason in reasons if reason is not Reason.WINDOW_CLOSED)
