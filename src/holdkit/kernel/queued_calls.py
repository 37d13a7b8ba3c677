"""Calls on their way to the engine: each is one caller's commands and their outcomes. They wait in a `fair_queue`.

A queued call ends with outcomes or with an error of its own; then it is settled. A call that was sent to the engine and has
no answer has an unknown outcome. A call that was not sent can be queued again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Final, TypeAlias, TypeVar

from ..core.commands import AnyCommand, Group
from ..core.outcomes import Reply
from ..engines import deadlines
from ..errors import HoldkitError, OutcomeUnknown, PromiseBroken

C = TypeVar("C", bound="QueuedCall")

INTERRUPTED: Final = "interrupted while the batch was being written: ask again with the same operation id"
"""The message of a call whose outcome stays unknown because its batch was interrupted."""

Undo: TypeAlias = Callable[[list[Reply]], Group | None]
"""Given the outcomes of a call whose caller was cancelled: the commands that take back what it granted, if any."""


_turn: ContextVar[str | None] = ContextVar("holdkit_turn", default=None)
_turn_taken: Final = _turn.get


@contextmanager
def in_turn_of(name: str) -> Iterator[None]:
    """Queue the calls of this block as if they came from a tenant of this name: their own tenant's calls cannot fill the queue for them."""
    token = _turn.set(name)
    try:
        yield
    finally:
        _turn.reset(token)


class SkippedLocked(Exception):
    """The engine did nothing of a call, because another transaction has locked something that it needs: `lock` names it.

    Never leaves the kernel.
    """

    def __init__(self, lock: str) -> None:
        super().__init__(lock)
        self.lock = lock


class QueuedCall:
    """One caller's group of commands, and its outcomes or its error."""

    __slots__ = ("cost", "error", "group", "legs", "minted", "outcomes", "sent", "size", "tenant", "until")

    def __init__(self, group: Group, minted: bool = False, until: float = inf) -> None:
        commands = group.commands
        self.group = group
        self.size = len(commands)
        self.legs = legs_in(commands)
        self.cost = self.size + self.legs
        """The share of a batch that it takes."""
        self.tenant = _turn_taken() or (commands[0].tenant if commands else "")
        """Whose turn it takes in the queue."""
        self.minted = minted
        """Its one hold has an id that the kernel minted, and that no other call can have: the id is a retry key."""
        self.outcomes: list[Reply] | None = None
        self.error: BaseException | None = None
        self.sent = False
        """An engine has it, or had it: without an answer its outcome is unknown."""
        self.until = until
        """The call's deadline, by `time.monotonic`."""

    @property
    def settled(self) -> bool:
        """Whether there is an answer."""
        return self.outcomes is not None or self.error is not None

    @property
    def skipped(self) -> bool:
        """Whether the engine skipped it, because of a lock."""
        return isinstance(self.error, SkippedLocked)

    def result(self) -> list[Reply]:
        """Return the outcomes, or raise the error."""
        if self.outcomes is not None:
            return self.outcomes
        assert self.error is not None
        try:
            raise self.error
        finally:
            del self  # the error's traceback would keep this call alive, and the call the error


def legs_in(commands: Sequence[AnyCommand]) -> int:
    """Return how many legs these commands name."""
    if len(commands) == 1:
        return len(command.legs) if (command := commands[0]).names == "legs" else 0
    return sum([len(command.legs) for command in commands if command.names == "legs"])


def unsettled(batch: Sequence[C]) -> list[C]:
    """Return the calls without an answer."""
    return [call for call in batch if call.outcomes is None and call.error is None]


def fail(batch: Iterable[QueuedCall], error: HoldkitError) -> None:
    """Give every call its own copy of the error: a shared one would collect the traceback of each thread that raises it."""
    for call in batch:
        copy = type(error).__new__(type(error))
        copy.args, copy.__dict__ = error.args, dict(error.__dict__)
        copy.__cause__ = error.__cause__
        call.error = copy


def late_in_batch() -> OutcomeUnknown:
    """Return the error of a call whose deadline passed while its batch was being written."""
    return OutcomeUnknown(f"{deadlines.SPENT} while its batch was being written: ask again with the same operation id")


def broken(cause: BaseException) -> PromiseBroken:
    """Return the error of a call that a bug of ours stopped. The cause keeps its own message: that may contain secrets."""
    error = PromiseBroken(f"unexpected {type(cause).__name__}; this command was not applied, please report it")
    error.__cause__ = cause
    return error
