"""A memory engine with pools that somebody else's transaction can lock: as PostgreSQL has them, without PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence
from math import inf
from typing import Any, TypeVar

from holdkit.core.audit_rows import Difference
from holdkit.core.bounds import Limits
from holdkit.core.commands import AnyCommand, Group
from holdkit.core.model import Key
from holdkit.core.outcomes import Outcome
from holdkit.core.reading import FindHold, Query
from holdkit.engines.memory import MemoryEngine
from holdkit.engines.port import AddLate, Applied, BatchRejected, Capabilities
from holdkit.engines.progress import Progress
from holdkit.testing import FakeClock
from tests.support.modes import unwrapped
from tests.support.threads import PATIENCE, wait_until

T = TypeVar("T")


class LockableEngine:
    """Leaves out groups that touch a locked pool; a patient call blocks until all of its pools are free."""

    url = "memory://"
    lanes = 1

    def __init__(self, limits: Limits | None = None) -> None:
        self.inner = MemoryEngine(clock=FakeClock(), limits=limits)
        self.limits, self.stored, self.clock = self.inner.limits, self.inner.stored, self.inner.clock
        self.durability = self.inner.durability
        self._locks: dict[str, threading.Event] = {}
        self.blocked = threading.Semaphore(0)
        """Released by every patient call, before it waits."""
        self.batches: list[int] = []
        """Groups of each batch that was applied at once."""
        self.wait_for_locks: list[int] = []
        """Groups of each batch that was applied after waiting."""
        self.before: Callable[[Sequence[Group], bool], None] | None = None
        self.after: Callable[[Sequence[Group], bool], None] | None = None
        self.skip_anyway: Callable[[Sequence[Group]], dict[int, str]] = lambda groups: {}
        """What even a patient call leaves out."""
        self.proves = False
        """Says how long its journal is, as an engine that is written to by nobody else."""
        self.on_growth: Callable[[], None] = lambda: None
        """Called by every patient call, after it has waited."""
        self.closed = False

    def lock(self, *pools: str) -> None:
        for pool in pools:
            self._locks[pool] = threading.Event()

    def unlock(self, *pools: str) -> None:
        for pool in pools or tuple(self._locks):
            self._locks.pop(pool).set()

    def _pools(self, command: AnyCommand) -> list[str]:
        legs = getattr(command, "legs", None)
        if legs is not None:
            return [leg.pool for leg in legs]
        found = self.inner.read(FindHold((command.tenant, getattr(command, "id", None) or "")))
        return [getattr(command, "id", "")] if found is None else [leg.pool for leg in found.legs]

    def _locked(self, group: Group) -> str | None:
        pools = [pool for command in group.commands for pool in self._pools(command) if pool in self._locks]
        return f"pool {min(pools)}" if pools else None

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities()

    def apply(self, groups: Sequence[Group], *, until: float = inf, wait_for_locks: bool = False) -> Applied:
        skipped_locked = self.skip_anyway(groups) if wait_for_locks else {}
        if wait_for_locks:
            self.blocked.release()
            waited = [self._locks.get(pool) for group in groups for one in group.commands for pool in self._pools(one)]
            for lock in waited:
                assert lock is None or lock.wait(PATIENCE), "never unlocked"
            self.on_growth()
        else:
            skipped_locked = {
                index: what for index, group in enumerate(groups) if (what := self._locked(group)) is not None
            }
        if self.before is not None:
            self.before(groups, wait_for_locks)
        here = [group for index, group in enumerate(groups) if index not in skipped_locked]
        applied = self.inner.apply(here)
        (self.wait_for_locks if wait_for_locks else self.batches).append(len(here))
        if self.after is not None:
            self.after(groups, wait_for_locks)
        answers = iter(applied.outcomes)
        nothing: list[Outcome] = []
        outcomes = [nothing if index in skipped_locked else next(answers) for index in range(len(groups))]
        places = [index for index in range(len(groups)) if index not in skipped_locked]
        return Applied(
            outcomes,
            applied.last_seq if self.proves else None,
            applied.wrote,
            skipped_locked,
            put_off=frozenset(places[index] for index in applied.put_off),
            unfed=applied.unfed,
        )

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        return self.inner.apply_in(tx, groups, lock)

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        return self.apply_in(tx, groups, lock)

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        return self.inner.read(query, durable=durable)

    def read_in(self, tx: Any, query: Query[T]) -> T:
        return self.inner.read_in(tx, query)

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        return self.read_in(tx, query)

    def listen(self, wake: Callable[[], None]) -> None:
        """There are no others."""

    def verify(self, progress: Progress | None = None) -> Generator[Difference, None, None]:
        return self.inner.verify(progress)

    def close(self) -> None:
        self.closed = True
        self.inner.close()

    def wait_blocked(self) -> None:
        """Wait until a patient call has begun."""
        assert self.blocked.acquire(timeout=PATIENCE), "nobody waits"


class GrowingEngine(LockableEngine):
    """One whose patient batches take in, once they are free to go, whoever touches the same pools."""

    rejecting = False
    """Takes whatever strikes it there for the fault of one of the batch, as PostgreSQL does before it commits."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(growing_batches=self)

    def apply_growing(self, groups: Sequence[Group], add_late: AddLate, *, until: float = inf) -> Applied:
        everybody = list(groups)
        wanted = {pool for group in groups for one in group.commands for pool in self._pools(one)}

        def fits(group: Group) -> bool:
            return {pool for one in group.commands for pool in self._pools(one)} <= wanted

        def come_in() -> None:
            self.on_growth = lambda: None  # once at most
            everybody.extend(add_late(fits))

        self.on_growth = come_in
        try:
            return self.apply(everybody, wait_for_locks=True)
        except Exception as error:
            if self.rejecting:
                raise BatchRejected("struck") from error
            raise


def lock_queues_of(kernel: Any) -> Any:
    return unwrapped(kernel)._executor.group_commit._lock_queues


def queued_behind_locks(kernel: Any) -> int:
    """How many submissions are queued behind those that are blocked."""
    return sum(len(room.queue) for room in tuple(lock_queues_of(kernel).open.values()))


def no_lock_queues(kernel: Any) -> None:
    """All rooms have gone, and the main queue has its whole bound again."""
    wait_until(lambda: not lock_queues_of(kernel).open and not lock_queues_of(kernel)._waiting)
    thing = unwrapped(kernel)
    wait_until(lambda: thing._executor.group_commit.main.queue.bound == thing._executor.limits.max_queue)
