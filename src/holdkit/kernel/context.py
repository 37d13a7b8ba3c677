"""The context that the calls of a thread or task share: actor, correlation id, reason, timeout, the name under which they take turns in
the queue, and whether they are made from inside a transaction of ours.

Actor, correlation id, reason and timeout are given per call (`arguments`) or, with `context`, once per request or task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import partial, wraps
from threading import TIMEOUT_MAX
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec.structs import replace

from ..core.commands import Ttl
from ..core.model import SECOND
from ..core.validation import invalid, text
from ..engines.deadlines import run_until, until
from ..engines.port import Engine
from .arguments import Actor, Context, actor_text, correlation_text, inherited, span

C = TypeVar("C", bound=type[Any])

LONGEST: Final = 1_024


class ReleaseReason(StrEnum):
    """The usual reasons; any text is allowed."""

    __repr__ = str.__repr__

    USER_CANCELLED = "user_cancelled"
    PAYMENT_FAILED = "payment_failed"
    ADMIN_OVERRIDE = "admin_override"


@contextmanager
def context(
    *,
    actor: Actor | str | None = None,
    correlation_id: str | UUID | None = None,
    reason: str | None = None,
    timeout: Ttl | None = None,
) -> Iterator[None]:
    """Set actor, correlation id, reason or timeout for every call inside the block; other values are inherited.

    `timeout` is how long each whole call may take, given like a ttl; otherwise the kernel's `call_timeout` applies. A call whose time is up
    raises `Overloaded` if it certainly did nothing, and `OutcomeUnknown` if it may have been committed.
    """
    inner = _amended(actor, correlation_id, reason, timeout)
    token = inherited.set(inner)
    try:
        yield
    finally:
        inherited.reset(token)


def _amended(
    actor: Actor | str | None, correlation_id: str | UUID | None, reason: str | None, timeout: Ttl | None
) -> Context:
    outer = inherited.get()
    return Context(
        actor=outer.actor if actor is None else text(actor_text(actor), "actor", LONGEST),
        correlation_id=outer.correlation_id
        if correlation_id is None
        else text(correlation_text(correlation_id), "correlation_id", LONGEST),
        reason=outer.reason if reason is None else text(reason, "reason", LONGEST),
        timeout=outer.timeout if timeout is None else _seconds(timeout),
    )


def amend(*, actor: Actor | str | None = None, correlation_id: str | UUID | None = None) -> None:
    """Set actor or correlation id from here on. For the integration of a framework, whose requests are no blocks: it keeps the result of
    `current` from the beginning of a request, and passes that to `restore` at its end, so that nothing reaches the next request."""
    inherited.set(_amended(actor, correlation_id, None, None))


def restore(context: Context) -> None:
    """Go back to a context that `current` returned. Unlike a token of the variable, it may come from another thread or task."""
    inherited.set(context)


@contextmanager
def without_timeout() -> Iterator[None]:
    """Lift every timeout that is set around the block: its calls may take as long as the kernel's limit says."""
    token = inherited.set(replace(inherited.get(), timeout=None))
    try:
        yield
    finally:
        inherited.reset(token)


def _seconds(timeout: Ttl) -> float:
    slots = span(timeout, "timeout")
    if slots <= 0:
        raise invalid("timeout", "timeout_too_short", "must be above 0")
    return min(slots / SECOND, TIMEOUT_MAX)


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
    """Mark a block in which application code runs in a transaction of the engine."""
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


_turn: ContextVar[str | None] = ContextVar("holdkit_turn", default=None)
turn_taken: Final = _turn.get
"""The name under which the calls of this thread or task take their turn in the queue, if it is not their tenant's."""


@contextmanager
def in_turn_of(name: str) -> Iterator[None]:
    """Queue the calls of this block as if they came from a tenant of this name: their own tenant's calls cannot fill the queue for them."""
    token = _turn.set(name)
    try:
        yield
    finally:
        _turn.reset(token)
