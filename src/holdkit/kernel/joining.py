"""Join calls to the transaction which a framework has open on this thread, although the caller does not pass it.

Theory of operation. A framework such as Django keeps one connection per thread, and its users expect that every call inside an open
transaction belongs to it. `JoiningExecutor` asks the framework before each call (`AmbientTransaction.current`):

- *None is open*: the call goes its usual way, through the queue.
- *One is open*: the call is executed there, as if its caller had passed it as `tx=`. Reads of pools, holds and records are too, so that they
  count what was not committed yet; reads of the journal show what is committed.
- A call that promises more than the open transaction can keep is refused. A saga's record must be durable before each step: it must not be
  undone with a transaction around it. A call that waits in line would wait for units that no other call can release meanwhile.

After the framework's commit (`AmbientTransaction.after_commit`) lines are fed, and followers and listeners are woken; not before, because
then they would find nothing, and never if the transaction is rolled back.

The decision is made on the caller's thread, before the call is queued. A thread that leads a batch executes the calls of other threads, whose
transactions are not its own.

*Callers that are gone.* A framework may run a call on a thread for a task, which can be cancelled while the thread cannot. `Caller` connects
the two: once the task calls `leave`, a call of that thread that waits in line or follows the journal ends, as if the kernel were closed. Only
that thread sees this; other users of the executor do not.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol, Self, TypeVar

from ..core.commands import AnyCommand, Group, PlaceHold
from ..core.model import StoredHold
from ..core.outcomes import Reply
from ..core.reading import (
    CountAhead,
    FindAvailable,
    FindHold,
    FindHolds,
    FindPool,
    FindPools,
    FindRecord,
    ListHolds,
    ListKinds,
    ListPools,
    ListRecords,
    ListTenants,
    ListUsage,
    Query,
)
from ..core.searching import ListAccounts, ListEntities, ListLine
from ..core.validation import invalid
from ..engines.port import Applied, Engine
from ..errors import InvalidRequest
from ._sync.blocking import LineWaiter
from ._sync.executor import Executor
from ._sync.tracing import TracedExecutor
from .batches import Feed, Undo
from .context import inside_any, refuse_inside
from .group_commit import GroupCommit
from .prepare import Randomness

T = TypeVar("T")

READ_INSIDE: Final = frozenset({
    CountAhead, FindAvailable, FindHold, FindHolds, FindPool, FindPools, FindRecord, ListAccounts, ListEntities, ListHolds, ListKinds,
    ListLine, ListPools, ListRecords, ListTenants, ListUsage,
})  # fmt: skip
"""Queries about pools, holds and records: any engine answers them in a caller's transaction."""


class AmbientTransaction(Protocol):
    """The transaction of this thread, as a framework knows it."""

    def current(self) -> Any:
        """Return the connection, if it has a transaction open; else None."""
        ...

    def must_not_commit(self) -> bool:
        """Return whether the open transaction is a test's, which is always rolled back: there nothing is durable, and nothing has to be."""
        ...

    def after_commit(self, work: Callable[[], None]) -> None:
        """Call `work` once the transaction is committed, never if it is rolled back; at once if none is open."""
        ...


class Caller:
    """A task for which a thread makes one call."""

    _of_thread = threading.local()

    def __init__(self) -> None:
        self._gone = False
        self._wake: Callable[[], None] | None = None

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Make the calls inside the block for this task, on this thread."""
        before = self.current()
        self._of_thread.caller = self
        try:
            yield
        finally:
            self._of_thread.caller = before

    @classmethod
    def current(cls) -> Self | None:
        """Return the task for which this thread makes a call."""
        return getattr(cls._of_thread, "caller", None)

    @property
    def gone(self) -> bool:
        """Whether it has left."""
        return self._gone

    def leave(self) -> None:
        """End the call's wait, because its task no longer wants the answer. From any thread."""
        self._gone = True
        if self._wake is not None:
            self._wake()

    def wake_by(self, wake: Callable[[], None]) -> None:
        """Store the function that ends the wait of its call."""
        self._wake = wake
        if self._gone:
            wake()


class JoiningGroupCommit(GroupCommit):
    """A group commit that passes calls on to an open transaction."""

    def __init__(self, engine: Engine, feed: Feed, ambient: AmbientTransaction) -> None:
        super().__init__(engine, feed)
        self._ambient = ambient

    def submit(
        self, group: Group, *, minted: bool = False, undo: Undo | None = None, shielded: bool = False
    ) -> list[Reply]:
        """Have the group written in the open transaction, or queue it."""
        tx = self._ambient.current()
        if tx is None:
            return super().submit(group, minted=minted, undo=undo, shielded=shielded)
        if inside_any() is not None:
            refuse_inside(self.engine)
        command = group.commands[0]
        if isinstance(command, PlaceHold) and command.wait_slots is not None:
            raise invalid(
                "wait",
                "wait_in_transaction",
                "a call inside an open transaction cannot wait: nobody could release units meanwhile",
            )
        return self.apply_in(tx, group)

    def read(self, query: Query[T], tx: Any = None, *, durable: bool = False) -> T:
        """Ask in the open transaction, where that can be; else ask the engine."""
        if tx is None and type(query) in READ_INSIDE:
            tx = self._ambient.current()
        return super().read(query, tx, durable=durable)

    def borrow(self, job: Callable[[Engine], T]) -> T:
        """Run a job that uses a transaction of the engine's own; inside an open one that cannot be."""
        if self._ambient.current() is not None:
            raise _not_inside("this call needs a transaction of its own")
        return super().borrow(job)

    def applied_in(self, applied: Applied) -> None:
        """Tell others after the commit."""
        self._ambient.after_commit(lambda: GroupCommit.applied_in(self, applied))


class JoiningExecutor(Executor):
    """Executes commands in the transaction that the framework has open on this thread, if there is one."""

    def __init__(self, engine: Engine, ambient: AmbientTransaction, randomness: Randomness = os.urandom) -> None:
        self._ambient = ambient
        super().__init__(engine, randomness)

    def open_group_commit(self, engine: Engine) -> GroupCommit:
        """Return a group commit that joins."""
        return JoiningGroupCommit(engine, self._lines_moved, self._ambient)

    def ambient(self) -> Any:
        """Return the open transaction, or None."""
        return self._ambient.current()

    @property
    def closed(self) -> bool:
        """Whether the kernel was closed; or, on a thread whose caller is gone, so that the call ends."""
        caller = Caller.current()
        return super().closed or (caller is not None and caller.gone)

    def _lines_moved(self, applied: Applied) -> None:
        """Do as the base class does, also on a thread whose caller is gone: it may have led a batch of others."""
        with Caller().calling():
            super()._lines_moved(applied)

    def watch_line(self, hold: StoredHold) -> LineWaiter:
        """Tell a blocked call what becomes of its hold, and when its caller is gone."""
        waiter, caller = super().watch_line(hold), Caller.current()
        if caller is not None:
            caller.wake_by(waiter.wake)
        return waiter

    def execute_together(self, commands: Sequence[AnyCommand], tx: Any = None) -> list[Reply]:
        """Execute as the base class does, but refuse a call without `tx` inside an open transaction: the steps of a saga must be
        durable one by one."""
        if tx is None:
            self.refuse_inside_transaction("a saga writes each step durably before the next")
        return super().execute_together(commands, tx)

    def refuse_inside_transaction(self, why: str) -> None:
        """Refuse what an open transaction cannot keep, unless that is a test's."""
        if self._ambient.current() is not None and not self._ambient.must_not_commit():
            raise _not_inside(why)


class TracedJoiningExecutor(TracedExecutor, JoiningExecutor):
    """Joins calls to a framework's open transaction, and traces them."""


def _not_inside(why: str) -> InvalidRequest:
    return invalid(
        "tx", "tx_open_here", f"{why}, so it cannot be part of the transaction that is open here: call it outside"
    )
