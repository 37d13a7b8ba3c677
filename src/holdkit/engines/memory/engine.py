"""The memory engine: the executable reference for every other engine, and what stands in for a database in tests. Nothing survives
the process."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import Any, TypeVar, cast

from ...core.audit import audit
from ...core.audit_rows import Difference, Folded, Stored
from ...core.bounds import Limits
from ...core.commands import Group
from ...core.erasure import Erased, Erasure
from ...core.keyed import SECRET
from ...core.model import Key
from ...core.reading import Query, ReadGeneration
from ...errors import InvalidRequest, PromiseBroken
from ..archive_erasing import ErasableArchive
from ..clocks import Clock
from ..deadlines import current
from ..durability import IN_MEMORY
from ..port import Applied, Capabilities, Lent
from ..progress import Meter, Progress
from ..rollups import MemoryRollups
from ..spill import Spill
from .batches import Batches
from .erasing import erase_tables
from .journal import Journal
from .reads import answer
from .tables import Tables

T = TypeVar("T")


class MemoryEngine(Batches):
    """Everything in dicts, the journal included; safe to share between threads."""

    url = "memory://"
    lanes = 1
    sql = False
    serial = True
    durability = IN_MEMORY

    def __init__(self, *, clock: Clock | None = None, limits: Limits | None = None, journal: int = 100_000) -> None:
        self.secret = os.urandom(SECRET)
        super().__init__(clock=clock, limits=limits, secret=self.secret, journal=journal)
        self._generation = os.urandom(8).hex()
        self._rollups = MemoryRollups()

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do beyond the port."""
        return Capabilities(lend=self, erasure=self, rollups=self._rollups)

    def lend(self, work: Callable[[Lent], T]) -> T:
        """Run `work` while no other call writes. There is no SQL, so what it applies is done at once."""
        with self._exclusive(current()):
            self._check_open()
            return work(_OwnTransaction(self))

    def apply_in(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:  # noqa: ARG002  (the port's)
        """Refuse: this engine has no SQL, so there are no callers' transactions."""
        self._check_open()
        name = self.url.partition(":")[0]
        raise InvalidRequest(f"the {name} engine has no transactions to join", field="tx", code="tx_unsupported")

    async def apply_in_async(self, tx: Any, groups: Sequence[Group], lock: Sequence[Key] = ()) -> Applied:
        return self.apply_in(tx, groups, lock)

    def read_in(self, tx: Any, query: Query[T]) -> T:  # noqa: ARG002  (the port's)
        """Refuse: this engine has no SQL, so there are no callers' transactions."""
        self.apply_in(tx, [])
        raise AssertionError("unreachable")

    async def read_in_async(self, tx: Any, query: Query[T]) -> T:
        return self.read_in(tx, query)

    def read(self, query: Query[T], *, durable: bool = False) -> T:  # noqa: ARG002  (nothing else can be seen)
        """Answer a question."""
        with self._lock:
            self._check_open()
            if isinstance(query, ReadGeneration):
                return cast(T, self._generation)
            result: T = answer(query, self._tables, self._journal, self.limits, self.clock())
            return result

    def listen(self, wake: Callable[[], None]) -> None:
        """Do nothing: there are no other processes."""

    def verify(self, progress: Progress | None = None) -> Generator[Difference, None, None]:
        """Fold the journal, and compare."""
        with self._writing, closing(Spill()) as spill:
            self._check_open()
            tables = self._tables
            legs = {
                (tenant, pool, tables.holds[tenant, hold].leg_deadline, hold): leg
                for (tenant, pool), holds in tables.legs.items()
                for hold, leg in holds.items()
            }
            stored = Stored(tables.pools, tables.holds, tables.records, legs, tables.fence_floors, tables.tallies)
            now = max(self.clock(), tables.last_slot)
            meter = Meter(progress, self._journal.last_seq)
            journal = meter.over(self._journal.whole())
            differences = list(audit(journal, stored, self.stored.created, now, Folded(spill.table)))
            meter.finish()
        yield from differences

    def erase(
        self,
        erasure: Erasure,
        *,
        dry_run: bool,
        progress: Progress | None = None,
        archive: ErasableArchive | None = None,
    ) -> Erased:
        """Replace everything at once, under the locks that keep readers and writers out."""
        assert archive is None, "nothing leaves this journal for an archive"
        with self._exclusive(current()), self._lock:
            self._check_open()
            journal = self._journal
            meter = Meter(progress, journal.last_seq)
            tables, erased = erase_tables(self._tables, erasure, meter.over(journal.whole()), dry_run=dry_run)
            if not dry_run:
                journal.rewrite(erasure)
                self._tables = tables
            meter.finish()
            return erased

    def unfinished(self) -> bool:
        """Return False: an erasure is done at once."""
        return False

    def finish_erasure(self, erasure: Erasure) -> None:
        """Do nothing: memory has no files."""

    def close(self) -> None:
        """Forget everything."""
        with self._writing, self._lock:
            self._closed = True
            self._tables = Tables()
            self._journal = Journal(1)


class _OwnTransaction:
    """What `lend` hands out: no transaction, and one batch."""

    tx: None = None

    def __init__(self, engine: MemoryEngine) -> None:
        self._engine = engine
        self._used = False

    def apply(self, groups: Sequence[Group]) -> Applied:
        """Apply the groups at once, and once: what was applied could not be taken back if the rest failed."""
        if self._used:
            raise PromiseBroken("a turn without SQL was used twice")
        self._used = True
        return self._engine.apply(groups)
