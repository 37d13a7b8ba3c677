"""Running one batch of submissions: neither sync nor async, so that sync and async share it.

Every submission ends with outcomes or with an error of its own. A batch that broke is run again in halves, so that poison
fails its owner only, but never unless the engine says or the journal proves that nothing was written; one whose fate is
unknown is asked about. What was sent and has no answer is unknown; what was not sent can be queued again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ..core.commands import Group
from ..core.reading import FindEnds
from ..engines.port import Applied, BatchRejected, Engine, GrowingBatches
from ..errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded
from .queued_calls import INTERRUPTED, SkippedLocked, Submission, broken, fail
from .unknown_outcomes import ask_again

More: TypeAlias = Callable[[Callable[[Group], bool]], Sequence[Submission]]
"""Given a test, moves into the batch what is queued and passes it, and gives that."""
SIZES = 11
"""Classes of batches by size, each twice as wide as the one before: 1, 2–3, 4–7, … 1,024 and more."""


class Runner:
    """Sends batches to one engine, one at a time, and settles every submission in them; what the engine leaves out is
    settled as `SkippedLocked`. A patient one lets the engine wait for locks."""

    def __init__(self, engine: Engine, *, wait_for_locks: bool = False) -> None:
        self.engine = engine
        self._wait_for_locks = wait_for_locks
        self._end: int | None = None
        self._alone = engine.lanes == 1 and not wait_for_locks
        """Whether the journal's length can prove anything; not where others write at the same time."""
        self.batches = self.commands = self.largest = 0
        self.sizes = [0] * SIZES

    def run(self, batch: Sequence[Submission], failed: Exception | None = None, more: More | None = None) -> bool:
        """Apply the batch; says whether anything may have been written. Raises only what was not the batch's fault. One that
        has been applied elsewhere, and `failed` there, is settled as if it had been here. One that had to wait for a lock may
        have become `more` meanwhile."""
        try:
            return self._apply(batch, failed, more)
        except BatchRejected as rejected:
            if len(batch) == 1:
                fail(batch, _plain(rejected))
                return False
            return self._isolate(batch)
        except Exception as error:
            waiting = [submission for submission in batch if not submission.settled]
            if waiting and not self._untouched():
                self._resolve(waiting, _unclear(error))
                return True
            wrote = self._isolate(waiting) if waiting else True
            if all(submission.outcomes is not None or submission.skipped_locked for submission in batch):
                raise  # it did not come again: no poison, but an interrupt from outside, such as a job's time limit
            return wrote

    def _apply(self, batch: Sequence[Submission], failure: Exception | None = None, more: More | None = None) -> bool:
        if self._end is None and self._alone and failure is None:
            self._end = self._look()
        groups = self.begin(batch)
        try:
            if failure is not None:
                raise failure
            applied = self._send(groups, more)
        except OutcomeUnknown as unknown:
            self._resolve(batch, unknown)
            return True
        except BatchRejected:
            raise
        except (Overloaded, EngineError) as failed:
            fail(batch, failed)
            return False
        return self.accept(batch, applied)

    def _send(self, groups: Sequence[Group], more: More | None) -> Applied:
        if not self._wait_for_locks:
            return self.engine.apply(groups)
        if more is None or not isinstance(self.engine, GrowingBatches):
            return self.engine.apply(groups, wait_for_locks=True)

        def add_late(fits: Callable[[Group], bool]) -> list[Group]:
            joining = more(fits)
            for submission in joining:
                submission.sent = True
            self.commands += sum([submission.size for submission in joining])
            return [submission.group for submission in joining]

        return self.engine.apply_growing(groups, add_late)

    def begin(self, batch: Sequence[Submission]) -> list[Group]:
        """Count the batch, unless it was sent before, and mark what is in it as sent."""
        if not batch[0].sent:
            size = 0
            for submission in batch:
                submission.sent = True
                size += submission.size
            self.batches += 1
            self.commands += size
            self.largest = max(self.largest, size)
            self.sizes[min(size.bit_length(), SIZES) - 1] += 1
        return [submission.group for submission in batch]

    def accept(self, batch: Sequence[Submission], applied: Applied) -> bool:
        """Give every submission what the engine made of it; says whether anything may have been written."""
        self._end = None  # whatever breaks in here, nobody can say that nothing was written
        if len(applied.outcomes) != len(batch):
            fail(batch, OutcomeUnknown("the engine gave more or fewer answers than it was asked for: please report it"))
            return True
        if applied.skipped_locked:
            for index, what in applied.skipped_locked.items():
                batch[index].error = SkippedLocked(what)
        for index, (submission, outcomes) in enumerate(zip(batch, applied.outcomes, strict=True)):
            if (outcomes or submission.error is None) and index not in applied.failed:
                submission.outcomes = outcomes
        self._end = applied.last_seq
        if self._end is None:
            self._alone = False
        return self._settle_failed(batch, applied.failed) or applied.wrote

    def _settle_failed(self, batch: Sequence[Submission], failed: Mapping[int, HoldkitError]) -> bool:
        """Those in a transaction of their own that failed: each kind as if it had been a batch. Says whether any of them may
        have written. One that was rejected is sent again with those it shared the transaction with: the same error."""
        wrote = False
        shared: dict[int, tuple[HoldkitError, list[Submission]]] = {}
        for index, error in failed.items():
            shared.setdefault(id(error), (error, []))[1].append(batch[index])
        for error, submissions in shared.values():
            if isinstance(error, OutcomeUnknown):
                self._resolve(submissions, error)
                wrote = True
            elif isinstance(error, BatchRejected) and len(submissions) > 1:
                wrote |= self._isolate(submissions)
            else:
                fail(submissions, _plain(error) if isinstance(error, BatchRejected) else error)
        return wrote

    def ask_about(self, doubtful: Sequence[Submission]) -> None:
        """Settle what was sent by somebody who was interrupted: found out, or unknown."""
        self._resolve(doubtful, OutcomeUnknown(INTERRUPTED))

    def _untouched(self) -> bool:
        """Whether the journal is as long as before: then nothing at all was applied, for certain."""
        end = self._look() if self._alone else None
        return end is not None and end == self._end

    def _look(self) -> int | None:
        """How long the journal is, if the engine can say."""
        try:
            return sum([end.seq for end in self.engine.read(FindEnds())])
        except Exception:  # noqa: BLE001 - the next batch will hear what is wrong
            return None

    def _isolate(self, batch: Sequence[Submission]) -> bool:
        """Nothing was written: run it in halves, down to single submissions, so that the one at fault ends up alone."""
        wrote = False
        for submission in batch:
            submission.sent = False
        middle = len(batch) // 2
        for part in (batch[:middle], batch[middle:]) if middle else (batch,):
            try:
                wrote |= self._apply(part)
            except BatchRejected as rejected:
                if len(part) > 1:
                    wrote |= self._isolate(part)
                else:
                    fail(part, _plain(rejected))
            except Exception as poison:  # noqa: BLE001 - whatever it is, it must fail its owner only
                if not self._untouched():
                    self._resolve(part, _unclear(poison))
                    wrote = True
                elif len(part) == 1:
                    part[0].error = poison if isinstance(poison, HoldkitError) else broken(poison)
                else:
                    wrote |= self._isolate(part)
        return wrote

    def _resolve(self, batch: Sequence[Submission], unknown: OutcomeUnknown) -> None:
        """Ask what became of each, until the engine has no answer for one: then it has none for the rest either."""
        self._end = None
        answering = True
        for submission in batch:
            try:
                if answering:
                    submission.outcomes = ask_again(
                        self.engine, submission.group, minted=submission.minted, wait_for_locks=self._wait_for_locks
                    )
            except Exception:  # noqa: BLE001 - whatever it is, this attempt does not settle the first one
                answering = False
            if submission.outcomes is None:
                fail([submission], unknown)


def _unclear(error: Exception) -> OutcomeUnknown:
    """Something broke while others were writing too: nobody can say whether this batch was applied."""
    unknown = OutcomeUnknown(f"unexpected {type(error).__name__} while the batch was being written: ask again")
    unknown.__cause__ = error
    return unknown


def _plain(rejected: BatchRejected) -> EngineError:
    """Alone, a rejected command is one that failed."""
    error = EngineError(str(rejected))
    error.__cause__ = rejected.__cause__
    return error
