"""Who is calling, and why: given per call, or once per request or task. Captured when a command is submitted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from threading import TIMEOUT_MAX
from typing import Any
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ..core.commands import Ttl
from ..core.model import SECOND
from ..core.validation import invalid, text
from ..errors import InvalidRequest
from .normalise import span

LONGEST = 1_024
KINDS = ("user", "system", "job", "api_client", "anonymous")


class Actor(Struct, frozen=True):
    """Who did it: a kind, and an id where it has one. Its text form is ``user:7``."""

    kind: str
    id: str = ""

    @classmethod
    def user(cls, id: str) -> Actor:
        """A person."""
        return cls("user", id)

    @classmethod
    def system(cls) -> Actor:
        """Holdkit itself, or the application's own machinery."""
        return cls("system")

    @classmethod
    def job(cls, name: str) -> Actor:
        """A scheduled job."""
        return cls("job", name)

    @classmethod
    def api_client(cls, id: str) -> Actor:
        """Another program."""
        return cls("api_client", id)

    @classmethod
    def anonymous(cls) -> Actor:
        """Nobody in particular."""
        return cls("anonymous")

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}" if self.id else self.kind


class ReleaseReason(StrEnum):
    """The usual reasons; any text is allowed."""

    USER_CANCELLED = "user_cancelled"
    PAYMENT_FAILED = "payment_failed"
    ADMIN_OVERRIDE = "admin_override"


def actor_text(actor: Actor | str | None) -> str | None:
    """An actor in its text form, or `InvalidRequest`."""
    if actor is None:
        return None
    said = str(actor) if isinstance(actor, Actor) else actor
    if not isinstance(said, str):
        raise InvalidRequest("must be an Actor or text such as 'user:7'", field="actor", code="actor_not_text")
    kind, _, name = said.partition(":")
    if kind not in KINDS or (not name and kind in ("user", "job", "api_client")):
        kinds = "user:…, job:…, api_client:…, system or anonymous"
        raise InvalidRequest(f"must be one of {kinds}", field="actor", code="actor_malformed")
    return said


def correlation_text(value: Any) -> Any:
    """A correlation id in its text form; what is neither text nor a UUID is passed on to be refused."""
    return str(value) if isinstance(value, UUID) else value


class Context(Struct, frozen=True):
    """What a call inherits when it does not say it itself."""

    actor: str | None = None
    correlation_id: str | None = None
    reason: str | None = None
    timeout: float | None = None
    """Seconds that a whole call may take."""


_NOTHING = Context()
_current: ContextVar[Context] = ContextVar("holdkit_context", default=_NOTHING)


def current() -> Context:
    """The context of this thread or task."""
    return _current.get()


@contextmanager
def context(
    *,
    actor: Actor | str | None = None,
    correlation_id: str | UUID | None = None,
    reason: str | None = None,
    timeout: Ttl | None = None,
) -> Iterator[None]:
    """Set actor, correlation id, reason or timeout for every call inside the block; what is not given is inherited.

    `timeout` is how long each whole call may take, spelled as a ttl; else the kernel's `call_timeout` counts. A call whose time is
    up raises `Overloaded` if it certainly did nothing, and `OutcomeUnknown` if it may have been committed.
    """
    outer = _current.get()
    inner = Context(
        actor=outer.actor if actor is None else text(actor_text(actor), "actor", LONGEST),
        correlation_id=outer.correlation_id
        if correlation_id is None
        else text(correlation_text(correlation_id), "correlation_id", LONGEST),
        reason=outer.reason if reason is None else text(reason, "reason", LONGEST),
        timeout=outer.timeout if timeout is None else _seconds(timeout),
    )
    token = _current.set(inner)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def without_timeout() -> Iterator[None]:
    """A block whose calls may take as long as the kernel says, whatever is around it."""
    token = _current.set(replace(_current.get(), timeout=None))
    try:
        yield
    finally:
        _current.reset(token)


def _seconds(timeout: Ttl) -> float:
    slots = span(timeout, "timeout")
    if slots <= 0:
        raise invalid("timeout", "timeout_too_short", "must be above 0")
    return min(slots / SECOND, TIMEOUT_MAX)
