"""Submissions: one caller's commands on their way to the engine, and what became of them.

Each ends with outcomes or with an error of its own. What was sent and has no answer is in doubt; what was not can be queued
again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Final, TypeVar

from ..core.commands import AnyCommand, Consume, Group, PlaceHold
from ..core.outcomes import Outcome
from ..engines import deadlines
from ..errors import HoldkitError, OutcomeUnknown, PromiseBroken
from .normalise import MOST_LEGS

S = TypeVar("S", bound="Submission")

MAX_COMMANDS: Final = 1_000
"""Commands of one batch: a bound on how long the write lock is held."""
MAX_LEGS: Final = MOST_LEGS
"""Legs of one batch, as far as its commands name them: the same bound, for holds over many pools."""
INTERRUPTED: Final = "interrupted while the batch was being written: ask again with the same operation id"
"""What those are told of whom no more can be found out."""


_BIRTHS: Final = (PlaceHold, Consume)  # a tuple: several times faster to look into than a union


class SkippedLocked(Exception):
    """The engine did nothing of a submission, because it would have had to wait for `what`. Never leaves the kernel."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Submission:
    """One caller's group on its way through the queue, and what became of it."""

    __slots__ = ("error", "group", "legs", "minted", "outcomes", "sent", "size", "until")

    def __init__(self, group: Group, minted: bool = False) -> None:
        self.group = group
        self.size = len(group.commands)
        self.legs = legs_in(group.commands)
        self.minted = minted
        """Its one hold has an id that nobody else can have: the id is a retry key."""
        self.outcomes: list[Outcome] | None = None
        self.error: BaseException | None = None
        self.sent = False
        """An engine has it, or had it: without an answer its fate is unknown."""
        moment = deadlines.current()
        self.until = inf if moment is None else moment
        """When its caller has waited as long as the call may take, by `time.monotonic`."""

    @property
    def settled(self) -> bool:
        """Whether there is an answer."""
        return self.outcomes is not None or self.error is not None

    @property
    def skipped_locked(self) -> bool:
        """Whether it has to wait elsewhere."""
        return isinstance(self.error, SkippedLocked)

    def result(self) -> list[Outcome]:
        """The outcomes, or the error raised."""
        if self.outcomes is not None:
            return self.outcomes
        assert self.error is not None
        try:
            raise self.error
        finally:
            del self  # the error's traceback would keep us, and we the error


def legs_in(commands: Sequence[AnyCommand]) -> int:
    """How many legs these commands name."""
    return sum([len(command.legs) for command in commands if isinstance(command, _BIRTHS)])


def take_batch(
    queue: deque[Submission],
    batch: list[Submission],
    most: int = MAX_COMMANDS,
    fits: Callable[[Group], bool] | None = None,
    latest: float = inf,
) -> None:
    """Move into the batch what is queued, in order, up to the bounds or the first that does not fit, or has time for longer than
    `latest`; a batch that is empty takes at least one. Interrupted or not: whoever is in the batch is not in the queue, and nobody is in neither."""
    room = most - sum([submission.size for submission in batch])
    legs = MAX_LEGS - sum([submission.legs for submission in batch])
    try:
        while queue and (((first := queue[0]).size <= room and first.legs <= legs) or not batch):
            if first.until > latest or (fits is not None and not fits(first.group)):
                break
            room, legs = room - first.size, legs - first.legs
            batch.append(first)  # first here, then gone there: an interrupt in between loses nobody
            queue.popleft()
    finally:
        if queue and batch and queue[0] is batch[-1]:
            queue.popleft()


def fail(batch: Iterable[Submission], error: HoldkitError) -> None:
    """Give every submission its own copy of the error: a shared one would grow a traceback per raiser."""
    for submission in batch:
        copy = type(error).__new__(type(error))
        copy.args, copy.__dict__ = error.args, dict(error.__dict__)
        copy.__cause__ = error.__cause__
        submission.error = copy


def under_way() -> OutcomeUnknown:
    """What a caller is told whose time is up while its batch is being written."""
    return OutcomeUnknown(f"{deadlines.SPENT} while its batch was being written: ask again with the same operation id")


def unsettled(batch: Sequence[S]) -> list[S]:
    """After an interrupt: those without an answer."""
    return [one for one in batch if one.outcomes is None and one.error is None]


def broken(cause: BaseException) -> PromiseBroken:
    """An exception nobody expected, as what it is: a bug of ours. Its own words stay in the cause: they may be secret."""
    error = PromiseBroken(f"unexpected {type(cause).__name__}; this command was not applied, please report it")
    error.__cause__ = cause
    return error
