"""The deadline of a call: the kernel sets it around each call of an engine, and every wait inside the engine respects it.

It is a moment of `time.monotonic`, per thread and per task. If none is set, as in a long job, each wait has only its own bound.
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


current: Final = _until.get
"""Gives the deadline, if there is one."""
set_current: Final = _until.set
"""Sets the deadline. Only in a copy of the context (see `run_until`), so that it does not stay behind."""


def within(seconds: float) -> float:
    """So many seconds, or what is left of the call if that is less; 0 if nothing is left."""
    moment = _until.get()
    return seconds if moment is None else max(0.0, min(seconds, moment - time.monotonic()))


def too_late() -> Overloaded:
    """The error of a call whose time was up before anything was sent for COMMIT."""
    return Overloaded(f"{SPENT}, and certainly did nothing: try again a little later", retry_after=1.0)


def passed() -> bool:
    """Whether the deadline has passed."""
    moment = _until.get()
    return moment is not None and moment <= time.monotonic()


def at_most(seconds: float) -> until:
    """A block that may take so many seconds, and no longer than the enclosing deadline."""
    return until(time.monotonic() + within(seconds))


def run_until(moment: float | None, work: Callable[..., T], *args: Any) -> T:
    """Run `work` with this deadline, in a copy of the context: however it ends, even by an interrupt at any instruction, the
    deadline does not stay behind to bound later calls."""
    return copy_context().run(_run, moment, work, *args)


def _run(moment: float | None, work: Callable[..., T], *args: Any) -> T:
    set_current(moment)
    return work(*args)


class until:  # noqa: N801 - reads as a word: `with until(moment):`
    """A block with this deadline; None: without one."""

    __slots__ = ("_moment", "_token")

    def __init__(self, moment: float | None) -> None:
        self._moment = moment

    def __enter__(self) -> None:
        self._token: Token[float | None] = _until.set(self._moment)

    def __exit__(self, *_: object) -> None:
        _until.reset(self._token)
