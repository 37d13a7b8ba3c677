"""Until when a call may take: set by the kernel around what it asks of an engine, looked at by whatever waits in there.

A moment of `time.monotonic`, per thread and per task. Where nobody has set one, as in a long job, every wait has its own
bound only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar, Token, copy_context
from typing import Any, Final, TypeVar

from ..errors import Overloaded

T = TypeVar("T")

SPENT: Final = "this call has taken as long as it may (call_timeout)"
_until: ContextVar[float | None] = ContextVar("holdkit_until", default=None)


def current() -> float | None:
    """The moment, if there is one."""
    return _until.get()


def within(seconds: float) -> float:
    """So many seconds, or what is left of the call if that is less; 0 if nothing is."""
    moment = _until.get()
    return seconds if moment is None else max(0.0, min(seconds, moment - time.monotonic()))


def too_late() -> Overloaded:
    """What a call is told whose time is up before anything was sent for COMMIT."""
    return Overloaded(f"{SPENT}, and certainly did nothing: try again a little later", retry_after=1.0)


def passed() -> bool:
    """Whether the call has taken as long as it may."""
    moment = _until.get()
    return moment is not None and moment <= time.monotonic()


def at_most(seconds: float) -> until:
    """A block that may take so many seconds, and no longer than what is around it."""
    return until(time.monotonic() + within(seconds))


def run_until(moment: float | None, work: Callable[..., T], *args: Any) -> T:
    """Run `work`, which may take until then. In a copy of the context: however it ends, struck by an interrupt at any instruction
    even, nothing of it stays behind to bound the calls that follow."""
    return copy_context().run(_run, moment, work, *args)


def _run(moment: float | None, work: Callable[..., T], *args: Any) -> T:
    _until.set(moment)
    return work(*args)


class until:  # noqa: N801 - reads as a word: `with until(moment):`
    """A block that may take until then; None: as long as it takes."""

    __slots__ = ("_moment", "_token")

    def __init__(self, moment: float | None) -> None:
        self._moment = moment

    def __enter__(self) -> None:
        self._token: Token[float | None] = _until.set(self._moment)

    def __exit__(self, *_: object) -> None:
        _until.reset(self._token)
