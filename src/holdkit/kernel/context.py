"""What a call carries beside its own arguments: who calls and why, its operation id, its deadline, its transaction.

Actor, correlation id, reason and timeout are given per call or, with `context`, once per request or task. They are captured
when the command is built. All of it is kept per thread and per task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import partial, wraps
from threading import TIMEOUT_MAX
from typing import Any, Final, TypeAlias, TypedDict, TypeVar
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from ..core.commands import Ttl
from ..core.model import SECOND
from ..core.validation import invalid, text
from ..engines.deadlines import run_until, until
from ..engines.port import Engine
from ..errors import InvalidRequest, UnknownArgument
from .normalise import span

C = TypeVar("C", bound=type[Any])

LONGEST: Final = 1_024
KINDS: Final = ("user", "system", "job", "api_client", "anonymous")


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

    __repr__ = str.__repr__

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
    """A correlation id in its text form. What is neither text nor a UUID is passed on, for validation to refuse."""
    return str(value) if isinstance(value, UUID) else value


class Context(Struct, frozen=True):
    """What a call inherits where it says nothing itself."""

    actor: str | None = None
    correlation_id: str | None = None
    reason: str | None = None
    timeout: float | None = None
    """Seconds that a whole call may take."""


_NOTHING: Final = Context()
_current: ContextVar[Context] = ContextVar("holdkit_context", default=_NOTHING)
current: Final = _current.get
"""The context of this thread or task."""


@contextmanager
def context(
    *,
    actor: Actor | str | None = None,
    correlation_id: str | UUID | None = None,
    reason: str | None = None,
    timeout: Ttl | None = None,
) -> Iterator[None]:
    """Set actor, correlation id, reason or timeout for every call inside the block; what is not given is inherited.

    `timeout` is how long each whole call may take, given like a ttl; otherwise the kernel's `call_timeout` applies. A call
    whose time is up raises `Overloaded` if it certainly did nothing, and `OutcomeUnknown` if it may have been committed.
    """
    inner = _amended(actor, correlation_id, reason, timeout)
    token = _current.set(inner)
    try:
        yield
    finally:
        _current.reset(token)


def _amended(
    actor: Actor | str | None, correlation_id: str | UUID | None, reason: str | None, timeout: Ttl | None
) -> Context:
    outer = _current.get()
    return Context(
        actor=outer.actor if actor is None else text(actor_text(actor), "actor", LONGEST),
        correlation_id=outer.correlation_id
        if correlation_id is None
        else text(correlation_text(correlation_id), "correlation_id", LONGEST),
        reason=outer.reason if reason is None else text(reason, "reason", LONGEST),
        timeout=outer.timeout if timeout is None else _seconds(timeout),
    )


def amend(*, actor: Actor | str | None = None, correlation_id: str | UUID | None = None) -> None:
    """Set actor or correlation id from here on. For the integration of a framework, whose requests are no blocks: it keeps what
    `current` said when the request began, and passes that to `restore` at its end, so that nothing reaches the next request."""
    _current.set(_amended(actor, correlation_id, None, None))


def restore(context: Context) -> None:
    """Go back to a context that `current` returned. Unlike a token of the variable, it may come from another thread or task."""
    _current.set(context)


@contextmanager
def without_timeout() -> Iterator[None]:
    """A block whose calls may take as long as the kernel's limit says, whatever timeout is set around it."""
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


class Call(TypedDict, total=False):
    """The keyword arguments that every method takes beside its own (`**call`); `call_fields` turns them into fields of the command."""

    op: str | None
    """Operation id: the caller's retry key."""
    actor: Actor | str | None
    correlation_id: str | UUID | None
    reason: str | None
    tx: Any
    """The caller's own connection, inside the caller's own transaction."""


class CallWithoutReason(TypedDict, total=False):
    """The same for a method that has a `reason` of its own."""

    op: str | None
    actor: Actor | str | None
    correlation_id: str | UUID | None
    tx: Any


CallFields: TypeAlias = Callable[[Call], dict[str, Any]]
"""`call_fields` of one tenant: a face is given it by its kernel."""
KNOWN: Final = "op, actor, correlation_id, reason, tx"
_KNOWN: Final = frozenset(KNOWN.split(", "))


def context_of(call: Call) -> Context:
    """What the call says itself about who calls and why; what it leaves out is inherited."""
    inherited = _current.get()
    if not call:
        return inherited
    if not _KNOWN.issuperset(call):
        unknown = min(set(call) - _KNOWN)
        message = f"is not an argument of this call; any call takes {KNOWN}"
        raise UnknownArgument(message, field=unknown, code="argument_unknown")
    actor, correlation_id, reason = call.get("actor"), call.get("correlation_id"), call.get("reason")
    if actor is None and correlation_id is None and reason is None:
        return inherited
    return Context(
        inherited.actor if actor is None else actor_text(actor),
        inherited.correlation_id if correlation_id is None else correlation_text(correlation_id),
        inherited.reason if reason is None else reason,
    )


def call_fields(call: Call, tenant: str) -> dict[str, Any]:
    """The fields that every command has: tenant, operation id, actor, correlation id, reason. (The commonest verbs pass them one by
    one: a struct takes three times as long to make from a dict.)"""
    said = context_of(call)
    return {
        "tenant": tenant,
        "op": call.get("op"),
        "actor": said.actor,
        "correlation_id": said.correlation_id,
        "reason": said.reason,
    }


def check_reason(reason: object) -> None:
    """Raise if a forced call does not say why."""
    if not isinstance(reason, str) or not reason.strip():
        raise invalid("reason", "reason_required", "a forced call must say why: the reason is journaled")


def forced_fields(reason: str, call: CallWithoutReason, fields_of: CallFields) -> dict[str, Any]:
    """Those fields for a call that passes a token or a limit: it must say why."""
    check_reason(reason)
    fields = Call(**call)  # type: ignore[typeddict-item]
    fields["reason"] = reason
    return {**fields_of(fields), "force": True}


def one_call(cls: C) -> C:
    """Give every public method of this class one deadline, however often it asks the engine. The class has an `_executor`. Its
    properties and generators are left alone."""
    for name, method in tuple(vars(cls).items()):
        if inspect.isfunction(method) and not name.startswith("_") and not _is_generator(method):
            setattr(cls, name, _bounded_async(method) if inspect.iscoroutinefunction(method) else _bounded(method))
    return cls


def _is_generator(method: Callable[..., Any]) -> bool:
    return inspect.isgeneratorfunction(method) or inspect.isasyncgenfunction(method)


def _bounded(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def bounded(self: Any, *args: Any, **named: Any) -> Any:
        return run_until(self._executor.deadline(), partial(method, self, *args, **named))

    return bounded


def _bounded_async(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def bounded(self: Any, *args: Any, **named: Any) -> Any:
        with until(self._executor.deadline()):
            return await method(self, *args, **named)

    return bounded


class _Inside:
    """Application code that runs in a transaction of one engine. A task that it leaves behind is no longer inside."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.ended = False


_inside: ContextVar[_Inside | None] = ContextVar("holdkit_inside", default=None)


@contextmanager
def inside(engine: Engine) -> Iterator[None]:
    """A block in which application code runs in a transaction of the engine."""
    block = _Inside(engine)
    token = _inside.set(block)
    try:
        yield
    finally:
        block.ended = True
        _inside.reset(token)


inside_any: Final = _inside.get
"""Whether this thread or task runs in such a block; `refuse_inside` says whether that matters."""


def refuse_inside(engine: Engine) -> None:
    """Refuse a call that would wait for the transaction which it is made from."""
    block = _inside.get()
    if block is not None and block.engine is engine and not block.ended:
        raise invalid("tx", "tx_open_here", "this call comes from inside a transaction of Holdkit's own, which it would "
                      "wait for: pass on the tx that your function was given")  # fmt: skip
