"""Running one batch of submissions: colourless, so that both colours share it.

Every submission ends with outcomes or with an error of its own: a batch that failed for certain is run again in halves,
down to single submissions, so that poison fails its owner only; one whose fate is unknown is never run again here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from ..core.commands import Group
from ..core.outcomes import Outcome
from ..engines.port import Engine
from ..errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded, PromiseBroken

MAX_COMMANDS = 1_000
"""Commands of one batch: a bound on how long the write lock is held."""


class Submission:
    """One caller's group on its way through the queue, and what became of it."""

    __slots__ = ("error", "group", "outcomes")

    def __init__(self, group: Group) -> None:
        self.group = group
        self.outcomes: list[Outcome] | None = None
        self.error: BaseException | None = None

    def result(self) -> list[Outcome]:
        """The outcomes, or the error raised."""
        if self.error is not None:
            raise self.error
        assert self.outcomes is not None
        return self.outcomes


def take_batch(queue: deque[Submission]) -> list[Submission]:
    """Everything queued, in order, up to the bound; at least one."""
    batch = [queue.popleft()]
    commands = len(batch[0].group.commands)
    while queue and commands + len(queue[0].group.commands) <= MAX_COMMANDS:
        commands += len(queue[0].group.commands)
        batch.append(queue.popleft())
    return batch


def run_batch(engine: Engine, batch: Sequence[Submission]) -> bool:
    """Apply the batch and settle every submission in it; says whether anything was written."""
    try:
        applied = engine.apply([submission.group for submission in batch])
    except (Overloaded, OutcomeUnknown, EngineError) as failed:
        settle(batch, failed)
        return isinstance(failed, OutcomeUnknown)
    except Exception as poison:  # noqa: BLE001 - whatever it is, it must fail its owner only
        if len(batch) == 1:
            batch[0].error = poison if isinstance(poison, HoldkitError) else broken(poison)
            return False
        middle = len(batch) // 2
        first, second = run_batch(engine, batch[:middle]), run_batch(engine, batch[middle:])
        return first or second
    except BaseException:
        settle(
            batch, OutcomeUnknown("interrupted while the batch was being written: ask again with the same operation id")
        )
        raise
    for submission, outcomes in zip(batch, applied.outcomes, strict=True):
        submission.outcomes = outcomes
    return applied.wrote


def settle(batch: Sequence[Submission], error: HoldkitError) -> None:
    """Give every submission its own copy of the error: a shared one would grow a traceback per raiser."""
    for submission in batch:
        copy = type(error).__new__(type(error))
        copy.args, copy.__dict__ = error.args, dict(error.__dict__)
        copy.__cause__ = error.__cause__
        submission.error = copy


def broken(poison: Exception) -> PromiseBroken:
    """An exception nobody expected, as what it is: a bug of ours."""
    error = PromiseBroken(f"unexpected {type(poison).__name__}: {poison}; nothing was written, please report it")
    error.__cause__ = poison
    return error
