"""The port every engine implements: a handful of methods, and what each must keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from msgspec import Struct

from ..core.audit_rows import Difference
from ..core.commands import Command, Group
from ..core.import_ import Carried
from ..core.model import Key, Limits
from ..core.outcomes import Done, Outcome, Position, Receipt, Reply, Survives
from ..core.reading import Query
from ..core.repair import Repaired
from ..errors import EngineError, HoldkitError
from .clocks import Clock
from .durability import Durability
from .metering import Progress
from .settings import StoredLimits

T = TypeVar("T")


class BatchRejected(EngineError):
    """Certainly nothing was done, and perhaps one command of several is at fault: the others may be sent again without."""


class NeedsThread(Exception):
    """Certainly nothing was done, and it cannot be done on the event loop: `apply`, which may wait, can do it."""


class Applied(Struct, frozen=True, gc=False):
    """What a batch came to: outcomes per group, in order, and whether anything was written."""

    outcomes: list[list[Outcome]]
    last_seq: int | None
    """The last journal number after this batch. None if others write at the same time, so that the journal's length
    proves nothing; always so with several lanes."""
    wrote: bool
    skipped_locked: Mapping[int, str] = {}
    """Groups, by index, of which nothing was done because a lock was missing, each with a text that names what it waits
    for: those of the same text can wait together. Their outcomes are an empty list."""
    failed: Mapping[int, HoldkitError] = {}
    """Groups, by index, that were in a transaction of their own, which failed: with an error as `apply` would raise it. The
    others are done. Their outcomes are an empty list."""
    still_open: Callable[[], bool] | None = None
    """In a caller's transaction, where a plain call of the same caller would wait for it for ever: whether it is open."""
    positions: Sequence[Sequence[Position | None]] = ()
    """Beside each outcome: where in the journal it stands, None if it wrote nothing. Empty: no position is known, because the
    numbers are given when the caller's transaction is committed."""

    def replies(self, survives: Survives | None) -> list[list[Reply]]:
        """The outcomes as callers are told: whatever is done as a `Receipt`."""
        if not self.positions:
            return [[reply(outcome, None, survives) for outcome in group] for group in self.outcomes]
        return [
            [reply(outcome, position, survives) for outcome, position in zip(group, positions, strict=True)]
            for group, positions in zip(self.outcomes, self.positions, strict=True)
        ]


def reply(outcome: Outcome, position: Position | None, survives: Survives | None) -> Reply:
    """One outcome as its caller is told."""
    if not isinstance(outcome, Done):
        return outcome
    return Receipt(outcome.slot, outcome.hold, outcome.pool, outcome.record, outcome.token, outcome.uncovered,
                   outcome.swept, outcome.more, outcome.replayed, position, survives)  # fmt: skip


def positions_of(outcomes: Sequence[Sequence[Outcome]], numbers: Sequence[int]) -> list[list[Position | None]]:
    """Of a journal with one lane: the number of each outcome's entry, in order (0: none), as positions beside the outcomes."""
    each = iter(numbers)
    return [[Position(0, number) if (number := next(each)) else None for _ in group] for group in outcomes]


class Finding(Struct, frozen=True):
    """One thing a health check looked at."""

    name: str
    level: Literal["ok", "warn", "fail"]
    says: str
    advice: str = ""
    """What to do, where something is wrong."""


class Engine(Protocol):
    """Stores. Thread-safe: any thread may call any method; writes are serialised inside.

    `apply` is atomic and durable when it returns. It raises `EngineError` or `Overloaded` if it certainly did nothing
    (`BatchRejected` if it may be one command's fault), `OutcomeUnknown` if it cannot tell, and never anything else for a
    fault of the machinery. Where `last_seq` is None nobody can prove afterwards that nothing was written: there, any
    exception that strikes while a commit is on its way, an interrupt included, must leave as `OutcomeUnknown`.
    """

    url: str
    lanes: int
    """How many lanes the journal has; never changes. Embedded engines have one."""
    stored: StoredLimits
    clock: Clock
    """The one authority on time, as well as it can be told here without asking: never behind it."""

    @property
    def durability(self) -> Durability:
        """What a done answer survives, as far as this process has been told: it is read again often enough that a change of
        the store's settings is soon noticed, by calls."""
        ...

    @property
    def limits(self) -> Limits:
        """The limits in force, as this process knows them: every transaction goes by those that are stored then."""
        ...

    def apply(self, groups: Sequence[Group], *, wait_for_locks: bool = False) -> Applied:
        """Decide and write these groups, in order: in one transaction, or, where the engine is distributed, in several, each
        atomic; then what failed is told group by group.

        Never waits for what somebody else's transaction has locked: such groups are left out. `wait_for_locks` waits, for
        `limits.lock_timeout` at most, then raises `Overloaded`; it leaves groups out only if it must.
        """
        ...

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """The same inside the caller's own transaction, each call in its savepoint; `InvalidRequest` if it cannot be.

        The pools to `lock` are locked first, in one order for all; those that are missing are passed over.
        """
        ...

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """The same in a task, on its event loop: where a connection can be async, an async one."""
        ...

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Answer a question from committed state. `durable`: a command's answer will rest on it, so what it shows must be as
        durable as what a command writes; else `OutcomeUnknown`. (About pools, holds, records and the history of one subject.)
        """
        ...

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, when other processes may have written. Where nobody tells, nothing is done."""
        ...

    def verify(self, progress: Progress | None = None) -> Iterator[Difference]:
        """Fold the whole journal and name every row that differs from it. What it keeps in memory is bounded, whatever the
        journal's length; it needs room on disk for its temporary file, about as much as the journal has."""
        ...

    def close(self) -> None:
        """Give back every file and connection; closing twice is quiet."""
        ...


@runtime_checkable
class Repairable(Protocol):
    """An engine whose rows can be mended from its journal. Where the state is the folded journal, there is nothing to mend."""

    def repair(self, command: Command, *, dry_run: bool, progress: Progress | None = None) -> Repaired:
        """Make the rows again what the journal says, in one transaction, which keeps every writer waiting meanwhile. The
        command says who and why. With `dry_run` only say what would be done."""
        ...


@runtime_checkable
class Insider(Protocol):
    """An engine that can be asked inside a caller's transaction: the answer counts what the caller has not committed yet."""

    def read_in(self, tx: Any, query: Query[T]) -> T:
        """Answer a question about pools, holds or records. `InvalidRequest` if `tx` is not what `apply_in` takes."""
        ...

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        """The same in a task."""
        ...


class Lent(Protocol):
    """A transaction of the engine's own, open, while application code runs in it."""

    tx: Any
    """What the application gets: a `sqlite3.Connection`, a `psycopg.Connection`, or None where there is no SQL."""

    def apply(self, groups: Sequence[Group]) -> Applied:
        """Decide and write these groups, in the lent transaction. (Without SQL: at once, and only once, so do it last.)"""
        ...


@runtime_checkable
class Lender(Protocol):
    """An engine that can lend a transaction of its own to application code."""

    sql: bool
    """Whether `Lent.tx` is a connection; else it is None."""
    serial: bool
    """Whoever has a transaction is the only writer: there is nothing more to lock. Else a pool is locked by naming it."""

    def lend(self, work: Callable[[Lent], T]) -> T:
        """Begin, run `work`, commit. What `work` raises is raised, and nothing of it all was done. May run it again, bounded,
        while nothing can have been committed. Raises `EngineError` or `Overloaded` if certainly nothing was done, and
        `OutcomeUnknown` if that cannot be told; every wait of ours is bounded."""
        ...


class Mark(Protocol):
    """A mark in an open transaction, gone if the transaction is ended or rolled back behind it."""

    def check(self) -> None:
        """Take it away; `InvalidRequest` if it is gone."""
        ...

    async def check_async(self) -> None:
        """The same in a task."""
        ...


@runtime_checkable
class Marking(Protocol):
    """An engine that can see whether application code has ended a transaction, be it lent or the caller's own."""

    def mark_in(self, tx: Any) -> Mark:
        """Mark the open transaction of `tx`."""
        ...

    async def mark_in_async(self, tx: Any) -> Mark:
        """The same in a task."""
        ...


@runtime_checkable
class Receiver(Protocol):
    """An engine that can take another one's journal as its own, while it is empty."""

    def receive(self, carried: Iterable[Carried], *, verify: bool) -> None:
        """Fold these entries and keep them as the journal: all of them or, if anything is wrong, none. With `verify` every row
        is compared with the journal before it is committed. `InvalidRequest` if the engine is not empty, or names the line."""
        ...


AddLate: TypeAlias = Callable[[Callable[[Group], bool]], Sequence[Group]]
"""Given a test, gives groups that pass it and are to be done too."""


@runtime_checkable
class GrowingBatches(Protocol):
    """An engine whose patient batches can take in more groups, once they have what they waited for."""

    def apply_growing(self, groups: Sequence[Group], add_late: AddLate) -> Applied:
        """The same as `apply` with patience. Calls `add_late` when it has its locks, once at most, before it reads the clock: whom
        that gives is done too, behind the others, and answered in the same list."""
        ...


@runtime_checkable
class AsyncApply(Protocol):
    """An engine that can also apply a batch on an event loop, without a thread: it never waits but for its server."""

    async def apply_async(self, groups: Sequence[Group], sent: Callable[[], None]) -> Applied:
        """The same as `apply`, or `NeedsThread`. Calls `sent` when the server has all of it and is at work: then there is time
        for something else. Cancelled, it leaves as it is what may be committed: the caller's answer is unknown."""
        ...
