"""Calls on their way to the engine, and running one batch of them, for threads and for tasks alike.

A call is one caller's commands and their outcomes. It waits in a `fair_queue`, and ends with outcomes or with an error of its own; then it
is settled. If the engine fails in a way that may be one call's fault, the batch is run again in halves, so that only this call fails; but
only if the engine says, or the journal's length proves, that nothing was written. If that is not known, each call is asked about
(`unknown_outcomes`). A call that was sent and has no answer has an unknown outcome; one that was not sent can be queued again.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from threading import Lock
from typing import Final, Protocol, TypeAlias, TypeVar

from ..core.commands import AnyCommand, Group
from ..core.outcomes import Reply
from ..core.reading import FindEnds, JournalRow
from ..engines.deadlines import SPENT, run_until
from ..engines.port import Applied, BatchRejected, Engine
from ..errors import EngineError, HoldkitError, OutcomeUnknown, Overloaded, PromiseBroken
from .context import turn_taken
from .results import replies_of
from .unknown_outcomes import ask_again

C = TypeVar("C", bound="QueuedCall")

TakeLate: TypeAlias = "Callable[[Callable[[Group], bool]], Sequence[QueuedCall]]"
"""Given a test, moves the queued calls that pass it into the batch, and returns them."""
Feed: TypeAlias = Callable[[Applied], None]
"""Feeds the lines of a batch's pools that have units left to offer, and wakes the calls whose waiting a batch has ended. Any thread
may call it; it never raises."""
SIZES: Final = 11
"""Classes of batches by size, each twice as wide as the one before: 1, 2–3, 4–7, … 1,024 and more."""
INTERRUPTED: Final = "interrupted while the batch was being written: ask again with the same operation id"
"""The message of a call whose outcome stays unknown because its batch was interrupted."""

Undo: TypeAlias = Callable[[list[Reply]], Group | None]
"""Given the outcomes of a call whose caller was cancelled: the commands that take back what it granted, if any."""


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
        self.tenant = turn_taken() or (commands[0].tenant if commands else "")
        """The name under which it takes its turn in the queue."""
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


class ThreadCall(QueuedCall):
    """A call that a thread waits for."""

    __slots__ = ("gone", "woken")

    def __init__(self, group: Group, minted: bool, until: float) -> None:
        super().__init__(group, minted, until)
        self.woken: Lock | None = None
        """Held until the call is settled or leads. A call that leads from the start has none."""
        self.gone = False
        """Its thread has left: no leader queues it again, and the batch that it led is no longer its own."""


class Withdrawable(Protocol):
    """The queue that a call waits in."""

    def withdraw(self, call: TaskCall, /) -> bool:
        """Take the call out; says whether it was there."""
        ...


class TaskCall(QueuedCall):
    """A call that a task waits for."""

    __slots__ = ("answered", "queue", "rounds", "shielded", "undo")

    queue: Withdrawable
    """Where it was queued last."""
    answered: Future[None]
    """Done when there is an answer, or when its deadline has passed."""

    def __init__(self, group: Group, minted: bool, answered: Future[None], shielded: bool, until: float = inf) -> None:
        QueuedCall.__init__(self, group, minted, until)
        self.answered, self.shielded = answered, shielded
        """Shielded: it is done even if its task waits no longer."""
        self.undo: Undo | None = None
        self.rounds = 0
        """How often it had to wait for a lock."""

    def wake(self) -> None:
        """Wake the task."""
        if not self.answered.done():
            self.answered.set_result(None)


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
    return OutcomeUnknown(f"{SPENT} while its batch was being written: ask again with the same operation id")


def broken(cause: BaseException) -> PromiseBroken:
    """Return the error of a call that a bug of ours stopped. The cause keeps its own message: that may contain secrets."""
    error = PromiseBroken(f"unexpected {type(cause).__name__}; this command was not applied, please report it")
    error.__cause__ = cause
    return error


class BatchCounts:
    """Counts the batches of all queues of a kernel, from any thread; a command counts in the batch that settled it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.batches = self.commands = self.largest = 0
        self.sizes = [0] * SIZES

    def add(self, commands: int) -> None:
        """Count a batch that has settled this many commands; one that has settled none is not counted."""
        with self._lock:
            self.batches += commands > 0
            self.commands += commands
            self.largest = max(self.largest, commands)
            self.sizes[max(0, min(commands.bit_length(), SIZES) - 1)] += commands > 0


class BatchRunner:
    """Sends batches to one engine, one at a time, and settles every call in them.

    Calls that the engine skips because of a lock are settled as `SkippedLocked`; with `wait_for_locks` the engine waits instead.
    """

    def __init__(self, engine: Engine, feed: Feed, counts: BatchCounts, *, wait_for_locks: bool = False) -> None:
        self.engine, self._feed, self.counts = engine, feed, counts
        self._wait_for_locks = wait_for_locks
        self._end: int | None = None
        """The journal's length after the last batch, where it is known."""
        self._sole_writer = engine.lanes == 1 and not wait_for_locks
        """Whether the journal's length can prove anything: not where others write at the same time."""

    def run(
        self,
        batch: Sequence[QueuedCall],
        until: float,
        *,
        failed: Exception | None = None,
        take_late: TakeLate | None = None,
    ) -> bool:
        """Apply the batch until a deadline, by `time.monotonic`; says whether anything may have been written.

        Raises only what was not the batch's fault. A batch that was applied elsewhere, and `failed` there, is settled as if it had
        failed here. `take_late` adds calls to a batch that had to wait for a lock.
        """
        try:
            return self._apply(batch, until, failed, take_late)
        except BatchRejected as rejected:
            if len(batch) == 1:
                fail(batch, _plain(rejected))
                return False
            return self._run_halves(batch, until)
        except Exception as error:
            unanswered = unsettled(batch)
            if unanswered and not self._nothing_written(until):
                self._resolve(unanswered, until, _unclear(error))
                return True
            wrote = self._run_halves(unanswered, until) if unanswered else True
            if all(call.error is None or call.skipped for call in batch):
                raise  # it did not happen again: not a call's fault, but an interrupt from outside, such as a job's time limit
            return wrote

    def _apply(
        self,
        batch: Sequence[QueuedCall],
        until: float,
        failure: Exception | None = None,
        take_late: TakeLate | None = None,
    ) -> bool:
        if self._end is None and self._sole_writer and failure is None:
            self._end = self._journal_length(until)
        groups = self.begin(batch)
        try:
            if failure is not None:
                raise failure
            if not self._wait_for_locks:
                applied = self.engine.apply(groups, until=until)
            elif take_late is None or (growing := self.engine.capabilities.growing_batches) is None:
                applied = self.engine.apply(groups, until=until, wait_for_locks=True)
            else:
                applied = growing.apply_growing(groups, lambda fits: self._add_late(take_late(fits)), until=until)
        except OutcomeUnknown as unknown:
            self._count(batch)
            self._resolve(batch, until, unknown)
            return True
        except BatchRejected:
            raise
        except (Overloaded, EngineError) as failed:
            self._count(batch)
            fail(batch, failed)
            return False
        return self.accept(batch, applied, until)

    def begin(self, batch: Sequence[QueuedCall]) -> list[Group]:
        """Mark the calls as sent."""
        for call in batch:
            call.sent = True
        return [call.group for call in batch]

    def _count(self, batch: Sequence[QueuedCall], unsettled: Collection[int] = ()) -> None:
        """Count a batch that has ended, but for the calls that it did not settle, by index."""
        self.counts.add(sum([call.size for index, call in enumerate(batch) if index not in unsettled]))

    def _add_late(self, calls: Sequence[QueuedCall]) -> list[Group]:
        for call in calls:
            call.sent = True
        return [call.group for call in calls]

    def accept(self, batch: Sequence[QueuedCall], applied: Applied, until: float) -> bool:
        """Give every call its outcome from the engine, and until the deadline ask for the outcomes of those that failed; return whether
        anything may have been written."""
        self._end = None  # whatever breaks in here, it cannot be proved any more that nothing was written
        self._count(batch, {*applied.skipped_locked, *applied.put_off})
        if len(applied.outcomes) != len(batch):
            fail(batch, OutcomeUnknown("the engine gave more or fewer answers than it was asked for: please report it"))
            return True
        if applied.skipped_locked:
            for index, lock in applied.skipped_locked.items():
                batch[index].error = SkippedLocked(lock)
        replies = replies_of(applied, self.engine.durability.level)
        unanswered = {*applied.skipped_locked, *applied.failed, *applied.put_off}
        for index, outcomes in enumerate(replies):
            if index not in unanswered:
                batch[index].outcomes = outcomes
        for index in applied.put_off:
            batch[index].sent = False  # it has no answer: the caller of `run` queues it again
        if applied.unfed or applied.served:
            self._feed(applied)
        self._end = applied.last_seq
        if self._end is None:
            self._sole_writer = False
        if applied.failed:
            return self._settle_failed(batch, until, applied.failed) or applied.wrote
        return applied.wrote

    def _settle_failed(self, batch: Sequence[QueuedCall], until: float, failed: Mapping[int, HoldkitError]) -> bool:
        """Settle the calls whose own transaction failed, as if each transaction had been a batch; return whether any of them may have
        written."""
        wrote = False
        shared: dict[int, tuple[HoldkitError, list[QueuedCall]]] = {}
        for index, error in failed.items():
            shared.setdefault(id(error), (error, []))[1].append(batch[index])
        for error, calls in shared.values():
            if isinstance(error, OutcomeUnknown):
                self._resolve(calls, until, error)
                wrote = True
            elif isinstance(error, BatchRejected) and len(calls) > 1:
                wrote |= self._run_halves(calls, until)
            else:
                fail(calls, _plain(error) if isinstance(error, BatchRejected) else error)
        return wrote

    def ask_about(self, sent: Sequence[QueuedCall], until: float) -> None:
        """Settle calls that were sent by a leader which was then interrupted: by asking until a deadline, or as unknown."""
        self._resolve(sent, until, OutcomeUnknown(INTERRUPTED))

    def _nothing_written(self, until: float) -> bool:
        """Return whether the journal is as long as before: then certainly nothing at all was applied."""
        end = self._journal_length(until) if self._sole_writer else None
        return end is not None and end == self._end

    def _journal_length(self, until: float) -> int | None:
        """Return the number of entries written; None if the engine cannot say."""
        try:
            ends: list[JournalRow] = run_until(until, self.engine.read, FindEnds())
            return sum([end.seq for end in ends])
        except Exception:  # noqa: BLE001 - the next batch will find out what is wrong
            return None

    def _run_halves(self, batch: Sequence[QueuedCall], until: float) -> bool:
        """Run a batch that wrote nothing in halves, down to single calls, so that the call at fault ends up alone."""
        wrote = False
        for call in batch:
            call.sent = False
        middle = len(batch) // 2
        for part in (batch[:middle], batch[middle:]) if middle else (batch,):
            try:
                wrote |= self._apply(part, until)
            except BatchRejected as rejected:
                if len(part) > 1:
                    wrote |= self._run_halves(part, until)
                else:
                    fail(part, _plain(rejected))
            except Exception as error:  # noqa: BLE001 - whatever it is, it must fail the call that caused it, and no other
                if not self._nothing_written(until):
                    self._resolve(part, until, _unclear(error))
                    wrote = True
                elif len(part) == 1:
                    part[0].error = error if isinstance(error, HoldkitError) else broken(error)
                else:
                    wrote |= self._run_halves(part, until)
        return wrote

    def _resolve(self, batch: Sequence[QueuedCall], until: float, unknown: OutcomeUnknown) -> None:
        """Ask until the deadline for the outcome of each call."""
        self._end = None
        answering = True
        for call in batch:
            try:
                if answering:
                    call.outcomes = ask_again(
                        self.engine,
                        call.group,
                        minted=call.minted,
                        until=until,
                        wait_for_locks=self._wait_for_locks,
                        applied=self._feed,
                    )
            except Exception:  # noqa: BLE001 - whatever it is, it does not settle the first attempt
                answering = False
            if call.outcomes is None:
                fail([call], unknown)


def _unclear(error: Exception) -> OutcomeUnknown:
    """Return the error of a batch that broke while others were writing too: whether it was applied is not known."""
    unknown = OutcomeUnknown(f"unexpected {type(error).__name__} while the batch was being written: ask again")
    unknown.__cause__ = error
    return unknown


def _plain(rejected: BatchRejected) -> EngineError:
    """Return the error of a call that was rejected alone."""
    error = EngineError(str(rejected))
    error.__cause__ = rejected.__cause__
    return error
