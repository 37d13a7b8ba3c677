"""The log engine: state in memory, every batch one synced frame of an append-only log that is the truth.

The same log always gives the same state and the same answers. Nobody sees a batch before its frame is durable. One process at a time;
no high availability. Disk, clock and randomness are ports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from ...core.audit import Numbered
from ...core.audit_rows import Difference, Folded
from ...core.bounds import Limits
from ...core.import_ import Carried, check_room, chunks, not_empty, take_in
from ...core.limits import LIMITS_KEY
from ...core.model import SECOND
from ...core.reading import FindEntries, Query, ReadHistory, ReadJournal, ReadPoolHistory
from ...core.view import View
from ...errors import EngineError, OutcomeUnknown
from ..archive_files import decoded
from ..archiving import ArchivedEntries, compare_baseline, row_checksum, under_way
from ..clocks import Clock
from ..durability import ON_DISK
from ..port import Capabilities
from ..resident.reads import answer
from ..resident.tables import Tables
from ..settings import StoredLimits, check_asked, limits_as_created, stored_form
from ..whole_journal import Progress
from .archiving import LogArchiver
from .baseline import LogBaseline, newest_name, stale_names
from .disk import Disk
from .erasing import ErasingLog
from .erasure_plan import FILE as ERASURE
from .erasure_plan import ErasureState, carry_out, read_state
from .journal import LogJournal, encode_batch
from .log import Log
from .seals import LogSeals
from .segments import check_names, mixed
from .snapshots import Snapshot, newest_snapshot, write_snapshot

T = TypeVar("T")

Replayed: TypeAlias = Callable[[int], None]
"""Told how many frames have been replayed so far."""

BOUNDED = Limits(max_pools=1_000_000, max_holds=1_000_000, max_operations=1_000_000, retry_window=600 * SECOND)
"""The bounds of a log that was given none."""


SNAPSHOT_ENTRIES = 100_000
"""A close writes a snapshot if so many entries have come since the last one."""


class LogEngine(ErasingLog):
    """A directory of segments, held by this process alone."""

    durability = ON_DISK

    def __init__(
        self,
        disk: Disk,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        randomness: Callable[[int], bytes] = os.urandom,
        progress: Replayed | None = None,
        segment_bytes: int | None = None,
    ) -> None:
        super().__init__(clock=clock, limits=limits or BOUNDED)
        self.url = f"log:///{quote(disk.name)}"
        self._disk, self._randomness = disk, randomness
        self._pid = os.getpid()
        self.restored_from = 0
        """The frame behind which the snapshot that was opened stood; 0 without one."""
        self._snapshot_seq = 0
        self._archiving = Lock()  # one run at a time
        self._erasing = Lock()
        self._in_doubt = False
        self.erasures = ErasureState()
        try:
            disk.lock()
        except BlockingIOError:
            disk.close()
            raise EngineError(f"{disk.name} is open in another process: a log has one writer at a time") from None
        self._log = (
            Log(disk, randomness) if segment_bytes is None else Log(disk, randomness, segment_bytes=segment_bytes)
        )
        self._journal = LogJournal(self._log)
        self._seals = LogSeals(disk, self._journal)
        try:
            self._open(limits, progress)
            self._seals.open()
        except BaseException as error:
            self._log.close()
            disk.close()
            if isinstance(error, OSError):
                raise EngineError(f"cannot open the log {disk.name}: {error}") from error
            raise

    def _open(self, limits: Limits | None, progress: Replayed | None) -> None:
        """Begin a log, or bring back the state of one: the newest good snapshot or the baseline, then the frames behind it."""
        where, names = self._disk.name, self._disk.names()
        if not check_names(where, names):
            self._log.create(stored_form(self.limits))
            return
        if ERASURE in names:
            self.erasures = read_state(self._disk)
        if self.erasures.plan is not None:
            self.erasures = carry_out(self._disk, self.erasures, self._randomness)
            names = self._disk.names()
        self._journal.rewritten = self.erasures.archived
        newest = newest_name(names)
        base = self._journal.baseline = None if newest is None else LogBaseline(self._disk, newest)
        self._log.open_segments(None if base is None else base.head.segment)
        created = limits_as_created(where, self._log.settings, limits, BOUNDED)
        marks = self._restore(created, base, newest_snapshot(self._disk, names))
        before = self._log.next_frame - 1
        if marks.pop(before, self._log.chain.hex()) != self._log.chain.hex():
            raise mixed(where)
        for frame in self._log.recover():
            if marks.pop(frame.number, self._log.chain.hex()) != self._log.chain.hex():
                raise mixed(where)
            if frame.number > self.restored_from:
                self.replay(frame)
            if progress is not None:
                progress(frame.number)
        if marks or (base is not None and self._log.next_frame <= base.head.after_frame + 1):
            raise mixed(where)
        check_asked(where, limits, self.stored, BOUNDED)
        self._log.settle(self._journal.last_seq + 1)
        stale = [] if base is None else stale_names(self._disk.names(), base)
        for name in (*stale, *(name for name in self._disk.names() if name.endswith(".new"))):
            self._disk.remove(name)  # what a crash left, half written or not yet removed

    def _restore(
        self, created: Limits, base: LogBaseline | None, found: tuple[Snapshot, Tables] | None
    ) -> dict[int, str]:
        """Take the tables from a snapshot or, if that is older, from the baseline. Returns the digests that the log must have behind
        their frames."""
        marks: dict[int, str] = {}
        through = 0
        if base is not None:
            marks[base.head.after_frame], through = base.head.chain, base.archived.through
            self.restored_from, self._journal.last_seq, self._snapshot_seq = base.head.after_frame, through, through
        if found is not None and (base is None or found[0].next_seq > through):
            about, self._tables = found
            marks.setdefault(about.after_frame, about.chain)
            self.restored_from = about.after_frame
            self._journal.last_seq = self._snapshot_seq = about.next_seq - 1
            if marks[about.after_frame] != about.chain:
                raise mixed(self._disk.name)
        elif base is not None:
            self._tables = base.tables()
        for log_id in ([] if base is None else [base.head.log_id]) + ([] if found is None else [found[0].log_id]):
            if log_id != self._log.log_id:
                raise mixed(self._disk.name)
        secret = self._log.settings.get("secret")
        known = None if secret is None else bytes.fromhex(secret)
        self.stored = StoredLimits(created, self._tables.records.get(LIMITS_KEY), secret=known)
        return marks

    def _check_open(self) -> None:
        super()._check_open()
        if os.getpid() != self._pid:
            raise EngineError(f"{self._disk.name} was opened before a fork: open it anew")

    def read(self, query: Query[T], *, durable: bool = False) -> T:
        """Answer a question; the journal, which may be long, without keeping a batch waiting."""
        if not isinstance(query, ReadJournal | ReadHistory | ReadPoolHistory | FindEntries):
            return super().read(query, durable=durable)
        self._check_open()
        result: T = answer(query, self._tables, self._journal, self.limits, 0)
        return result

    def _persist(self, view: View) -> None:
        if self._in_doubt:
            self._settle_plan()
        self._log.append(view.loaded.next_seq, encode_batch(view), len(view.entries))

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do beyond the port."""
        return Capabilities(
            lend=self, import_=self, seals=self._seals, erasure=self, rollups=self._rollups, archive=self
        )

    @property
    def _generation(self) -> str:
        return self._log.generation

    def renew_generation(self) -> None:
        """What was opened is a copy that was put back: its journal may differ from the original's from here on."""
        with self._writing:
            self._check_open()
            try:
                self._log.renew_generation()
            except OSError as error:
                raise EngineError(f"{self._disk.name}: no new segment could be begun: {error}") from error

    def receive(self, carried: Iterable[Carried], *, verify: bool) -> None:
        """Take another engine's journal as ours, frame by frame. If it fails half-way the log is to be thrown away: whoever
        calls this has made it beside its final place."""
        with self._writing:
            self._check_open()
            if self._journal.last_seq or self._tables.pools:
                raise not_empty(self._disk.name)
            for chunk in chunks(carried):
                view = self._view(
                    min(one.entry.slot for one in chunk)
                )  # pruned as of then: what follows may need the rest
                take_in(view, chunk)
                self._write(view)
            now = max(self.clock(), self._tables.last_slot)
            check_room(self.limits, len(self._tables.pools), self._tables.live_at(now))
            for difference in self.verify() if verify else ():
                raise EngineError(f"cannot import: {difference}; export it again while nobody writes")

    @contextmanager
    def archiver(self) -> Iterator[LogArchiver]:
        """Begin a run of archiving."""
        self._check_open()
        if not self._archiving.acquire(blocking=False):
            raise under_way(self._disk.name)
        try:
            yield LogArchiver(self._disk, self._log, self._journal, self.stored.created, self._randomness,
                              referred=self._first_referred, take=self._take_baseline)  # fmt: skip
        finally:
            self._archiving.release()

    def _first_referred(self) -> int | None:
        """The first entry that a recorded answer refers to."""
        with self._lock:
            return min((one.seq for one in self._tables.operations.values() if one.seq), default=None)

    def _take_baseline(self, baseline: LogBaseline) -> None:
        """From here on it stands for the archived entries; what it makes superfluous is removed."""
        with self._writing, self._lock:
            self._check_open()
            before, self._journal.baseline = self._journal.baseline, baseline
            self._log.drop_before(baseline.head.segment)
            if before is not None:
                self._log.keep_open(before.file)
            with suppress(OSError):  # the next opening removes what is left
                for stale in stale_names(self._disk.names(), baseline):
                    self._disk.remove(stale)

    def verify_with(
        self, archive: ArchivedEntries, progress: Progress | None = None
    ) -> Generator[Difference, None, None]:
        """The same as `verify`, with the archived entries in place of the baseline."""
        yield from self._audit(progress, lambda folded: self._archived_and_kept(archive, folded))

    def _archived_and_kept(self, archive: ArchivedEntries, folded: Folded) -> Iterator[Numbered | Difference]:
        baseline = self._journal.baseline
        if baseline is not None:
            for row in archive(0, baseline.archived.through):
                yield row.seq, decoded(row)
            rows = ((row, row_checksum(0, row.key, row.body)) for row in baseline.rows())
            yield from compare_baseline(0, rows, folded)
        yield from self._journal.kept()

    def snapshot(self) -> None:
        """Write the tables down, so that the next opening is short."""
        with self._writing:
            self._check_open()
            log = self._log
            if self.erasures.plan is not None:
                raise EngineError(f"{self._disk.name}: an erasure has not ended: no snapshot before that")
            try:
                write_snapshot(self._disk, log.log_id, log.next_frame - 1, log.chain, log.next_seq, self._tables,
                               self._randomness)  # fmt: skip
            except OSError as error:
                raise EngineError(
                    f"{self._disk.name}: no snapshot could be written: {error}; the log is whole"
                ) from error
            self._snapshot_seq = self._journal.last_seq

    def close(self) -> None:
        """Seal the log with an empty frame, so that damage to its last batch can be told from a torn tail."""
        with self._writing, self._lock:
            if self._closed:
                return
            if os.getpid() == self._pid:
                with suppress(EngineError, OutcomeUnknown):  # the log is whole without either
                    if self._journal.last_seq - self._snapshot_seq >= SNAPSHOT_ENTRIES:
                        self.snapshot()
                    self._log.seal()
            self._closed = True
            self._seals.close()
            if self._journal.baseline is not None:
                self._journal.baseline.file.close()
            self._log.close()
            self._disk.close()
