"""The deadline of a call, by `time.monotonic`; `inf` where it has none, as in a long job: then each wait has only its own bound.

A batch is given its deadline as an argument (`Engine.apply`): it unites calls of several callers, and none of them is its context. The
deadline of any other call is kept per thread and per task, and the kernel sets it around each call of an engine: the waits of a read,
of a lent transaction or of a new connection lie below many functions that have nothing else to do with it, a driver's hooks among them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar, Token, copy_context
from math import inf
from typing import Any, Final, TypeVar

from ..errors import Overloaded

T = TypeVar("T")

SPENT: Final = "this call has taken as long as it may (call_timeout)"
_until: ContextVar[float] = ContextVar("holdkit_until", default=inf)


current: Final = _until.get
"""Return the deadline of this thread or task."""


def seconds_left(until: float, most: float) -> float:
    """Return the seconds until this deadline, at most `most`; 0 if it has passed."""
    return most if until == inf else max(0.0, min(most, until - time.monotonic()))


def within(seconds: float) -> float:
    """Return these seconds, or fewer if the deadline of this thread or task comes earlier."""
    return seconds_left(_until.get(), seconds)


def too_late() -> Overloaded:
    """Return the error of a call whose time was up before anything was sent for COMMIT."""
    return Overloaded(f"{SPENT}, and certainly did nothing: try again a little later", retry_after=1.0)


def passed() -> bool:
    """Return whether the deadline of this thread or task has passed."""
    return _until.get() <= time.monotonic()


def at_most(seconds: float) -> until:
    """Return a block that may take this long, and no longer than the enclosing deadline."""
    return until(time.monotonic() + within(seconds))


def run_until(moment: float, work: Callable[..., T], *args: Any) -> T:
    """Run `work` with this deadline, in a copy of the context: however it ends, even by an interrupt at any instruction, the
    deadline does not stay behind to bound later calls."""
    return copy_context().run(_run, moment, work, *args)


def _run(moment: float, work: Callable[..., T], *args: Any) -> T:
    _until.set(moment)
    return work(*args)


class until:  # noqa: N801 - reads as a word: `with until(moment):`
    """A block with this deadline."""

    __slots__ = ("_moment", "_token")

    def __init__(self, moment: float) -> None:
        self._moment = moment

    def __enter__(self) -> None:
        self._token: Token[float] = _until.set(self._moment)

    def __exit__(self, *_: object) -> None:
        _until.reset(self._token)
