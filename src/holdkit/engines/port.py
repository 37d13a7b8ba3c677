"""The port that every engine implements, and the capabilities that an engine may declare.

To write an engine: implement `Engine`, whose docstrings say what each method must guarantee; declare in `capabilities` what it can do
beyond that; and run `holdkit.testing.conformance` against it, which also checks that what is declared works. An engine that declares
nothing is complete: the kernel does without, or refuses the call that needs the capability.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from ..core.audit_rows import Difference
from ..core.bounds import Limits
from ..core.command_kinds import Command
from ..core.commands import Group
from ..core.import_ import Carried
from ..core.model import Key, StoredHold
from ..core.outcomes import Outcome, Position
from ..core.reading import Query
from ..core.repair import Repaired
from ..errors import EngineError, HoldkitError
from .archiving import Archiving
from .clocks import Clock
from .durability import Durability
from .erasing import Erasing
from .lock_times import LockTimer
from .progress import Progress
from .rollups import RollupStore
from .seal_store import SealStore
from .settings import StoredLimits

T = TypeVar("T")


class BatchRejected(EngineError):
    """Nothing was written, and perhaps one command of several is at fault: the others may be sent again without it."""


class NeedsThread(Exception):
    """Nothing was written, and the batch cannot be applied on the event loop: `apply`, which may block, can do it."""


class Applied(Struct, frozen=True, gc=False):
    """The result of a batch: outcomes per group, in order, and whether anything was written."""

    outcomes: list[list[Outcome]]
    last_seq: int | None
    """The last journal number after this batch. None if others write at the same time, so that the journal's length
    proves nothing; always so with several lanes."""
    wrote: bool
    skipped_locked: Mapping[int, str] = {}
    """Groups, by index, that were not applied because a lock was missing, each with a text that names what it waits for:
    groups with equal texts can wait together. Their outcomes are an empty list."""
    failed: Mapping[int, HoldkitError] = {}
    """Groups, by index, that were in a transaction of their own, which failed, each with its error. The others are done."""
    put_off: frozenset[int] = frozenset()
    """Groups, by index, left for the next transaction because this one touches as many legs as it may; never the first group."""
    unfed: Sequence[Key] = ()
    """Pools with units left to offer: send a `FeedLine` for each, at once or when the caller's own transaction has ended."""
    served: Sequence[StoredHold] = ()
    """Holds that waited in line, and wait no longer: wake the callers that are blocked for them."""
    still_open: Callable[[], bool] | None = None
    """In a caller's transaction, where a plain call of the same caller would wait for it for ever: whether it is open."""
    positions: Sequence[Sequence[Position | None]] = ()
    """For each outcome its place in the journal, None if it wrote nothing. Empty if the caller's commit gives the numbers."""


class Engine(Protocol):
    """Stores the state and the journal. Thread-safe: any thread may call any method; the engine serialises writes itself.

    `apply` is atomic, and durable when it returns. It raises `EngineError` or `Overloaded` if it certainly wrote nothing (`BatchRejected`
    if one of several commands may be at fault), `OutcomeUnknown` if it cannot tell, and no other exception for a failure of the
    machinery. Where `Applied.last_seq` is None, no later read can prove that nothing was written: there, any exception that is raised
    while a commit is under way, an interrupt included, must become `OutcomeUnknown`.
    """

    url: str
    lanes: int
    """How many lanes the journal has; never changes. Embedded engines have one."""
    stored: StoredLimits
    clock: Clock
    """The slot now, as well as this process knows it without asking the store: never behind the clock that commands are decided by."""

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do beyond this port."""
        ...

    @property
    def durability(self) -> Durability:
        """Return what a done answer survives, from the settings that this process read last. Calls refresh them often enough that a
        change is noticed soon."""
        ...

    @property
    def limits(self) -> Limits:
        """Return the limits that this process read last. Every transaction uses those that are stored at its moment."""
        ...

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        """Decide and write these groups, in order: in one transaction or, if the tables are distributed, in several, each atomic;
        then failures are reported by group.

        Never waits for what another transaction has locked: such groups are skipped. With `wait_for_locks` it waits, for
        `limits.lock_timeout` at most, then raises `Overloaded`, and skips groups only if it must. Every wait ends at the deadline
        `until`, by `time.monotonic`.
        """
        ...

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """Apply the groups inside the caller's own transaction, in a savepoint. Raise `InvalidRequest` if `tx` cannot be used for it.

        First locks the pools in `lock`, in the one order that all transactions use; passes over those that do not exist.
        """
        ...

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        """Apply as `apply_in` does, in a task, on its event loop; `tx` is an async connection if the driver has such."""
        ...

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Answer a query from committed state. With `durable` the answer of a command will rest on it, so it must be as durable as
        what a command writes; else raise `OutcomeUnknown`. (For queries about pools, holds, records, the history of a subject, and
        those whose answer followers show: `Query.shown`.)
        """
        ...

    def read_in(self, tx: Any, query: Query[T]) -> T:
        """Answer a query about pools, holds or records inside the caller's own transaction, uncommitted changes included;
        `InvalidRequest` if `tx` is not what `apply_in` takes."""
        ...

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        """Read as `read_in` does, in a task."""
        ...

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, when other processes may have written. Do nothing if the store does not notify."""
        ...

    def verify(self, progress: Progress | None = None) -> Generator[Difference, None, None]:
        """Fold the whole journal and report every row that differs from it. Memory use is bounded whatever the journal's length;
        temporary files take about as much disk as the journal. Closing the generator, or raising from `progress`, ends it: it releases
        its connection and its files then, in that thread."""
        ...

    def close(self) -> None:
        """Release every file and connection. Closing twice does nothing."""
        ...


class Repairable(Protocol):
    """Rows can be repaired from the journal. (Where the state is the folded journal, there is nothing to repair.)"""

    def repair(self, command: Command, *, dry_run: bool, progress: Progress | None = None) -> Repaired:
        """Make the rows what the journal says, in one transaction that blocks every writer. The command says who repairs and why.
        With `dry_run` only report what would be written."""
        ...


class Importing(Protocol):
    """The engine can take another one's journal as its own, while it is empty."""

    def receive(self, carried: Iterable[Carried], *, verify: bool) -> None:
        """Fold these entries and store them as the journal: all of them or, if anything is wrong, none. With `verify`, compare
        every row with the journal before the commit. `InvalidRequest` if the engine is not empty; errors name the line."""
        ...


class Lent(Protocol):
    """An open transaction of the engine's own, while application code runs in it."""

    tx: Any
    """What the application gets: a `sqlite3.Connection`, a `psycopg.Connection`, or None where there is no SQL."""

    def apply(self, groups: Sequence[Group]) -> Applied:
        """Decide and write these groups in this transaction. (Without SQL: immediately, and only once, so call it last.)"""
        ...


class TransactionLender(Protocol):
    """The engine can run application code in a transaction of its own."""

    sql: bool
    """Whether `Lent.tx` is a connection; else it is None."""
    serial: bool
    """Whether the holder of a transaction is the only writer, so that nothing more has to be locked. Else a pool is locked by a
    command that names it."""

    def lend(self, work: Callable[[Lent], T]) -> T:
        """Begin, run `work`, commit. An exception of `work` is raised, and nothing was done. May run `work` again, a bounded number
        of times, while nothing can have been committed. Raises `EngineError` or `Overloaded` if certainly nothing was done, and
        `OutcomeUnknown` if it cannot tell. Every wait of the engine's own is bounded."""
        ...


class Mark(Protocol):
    """A mark in an open transaction, which disappears if the transaction is ended or rolled back behind it."""

    def check(self) -> None:
        """Remove it; `InvalidRequest` if it has disappeared."""
        ...

    async def check_async(self) -> None:
        """Check as `check` does, in a task."""
        ...


class Marking(Protocol):
    """The engine can tell whether application code has ended a transaction, the engine's own or the caller's."""

    def mark_in(self, tx: Any) -> Mark:
        """Mark the open transaction of `tx`."""
        ...

    async def mark_in_async(self, tx: Any) -> Mark:
        """Mark as `mark_in` does, in a task."""
        ...


AddLate: TypeAlias = Callable[[Callable[[Group], bool]], Sequence[Group]]
"""Given a test, returns groups that pass it and are to be applied too."""


class GrowingBatches(Protocol):
    """A batch that waited for locks can take in more groups once it has them."""

    def apply_growing(self, groups: Sequence[Group], add_late: AddLate, *, until: float = inf) -> Applied:
        """Apply the groups, waiting for locks. Calls `add_late` at most once, when it has its locks and before it reads the clock;
        applies the groups that this returns after the others, and answers them in the same list."""
        ...


class AsyncApply(Protocol):
    """The engine can apply a batch on an event loop, without a thread: it waits for nothing but its server."""

    async def apply_async(
        self, groups: Sequence[Group], sent: Callable[[], None] | None, *, until: float = inf
    ) -> Applied:
        """Apply like `apply`, or raise `NeedsThread`. Call `sent`, if there is one, when the server has the whole batch and works on it,
        so that the loop can do something else meanwhile. If it is cancelled, what may be committed is left as it is: the caller's outcome
        is unknown."""
        ...


class Channels(Protocol):
    """Processes that share the store can wake one another, each by the name of a channel. Wake-ups carry nothing, and may be lost."""

    def listen_on(self, channel: str, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, after each notification on this channel, until the engine is closed; and once when the engine
        begins to listen, for what came before that. Does not block; does nothing for a channel that is listened on already."""
        ...

    def notify(self, channels: Iterable[str]) -> None:
        """Wake the listeners on these channels, in any process. Never raises, and does not wait for them."""
        ...


class GuardStats(Struct, frozen=True):
    """What guarded batches have done: batches whose commands the store itself decides, by a guard, in one round trip. A call in a caller's
    transaction is a batch of one."""

    batches: int = 0
    commands: int = 0
    """Those that were sent in guarded batches."""
    passed: int = 0
    """Those that passed the guard. The others took the ordinary way in the same call."""
    returned: int = 0
    """Due legs that guarded batches have returned."""
    misses: Mapping[str, int] = {}
    """Those that did not pass, by cause."""


class Guarding(Protocol):
    """The store decides the commonest commands itself, by a guard (`holdkit.core.guards`)."""

    @property
    def guard_stats(self) -> GuardStats:
        """What guarded batches have done."""
        ...


class OnDisk(Protocol):
    """The data may be in a file system of this machine."""

    def data_path(self) -> Path | None:
        """Return a path in that file system; None if the data is on another machine, or that is not known. May ask the store."""
        ...

    def data_size(self) -> int:
        """Return how many bytes the database takes, with whatever else is in it. May ask the store."""
        ...


class Capabilities(Struct, frozen=True):
    """What an engine can do beyond `Engine`: for each capability the object that has its methods, or None. Declared rather than
    discovered, so that a type checker compares the declaration with the methods."""

    repair: Repairable | None = None
    import_: Importing | None = None
    lend: TransactionLender | None = None
    marks: Marking | None = None
    growing_batches: GrowingBatches | None = None
    async_apply: AsyncApply | None = None
    channels: Channels | None = None
    lock_times: LockTimer | None = None
    guards: Guarding | None = None
    seals: SealStore | None = None
    erasure: Erasing | None = None
    rollups: RollupStore | None = None
    archive: Archiving | None = None
    on_disk: OnDisk | None = None
