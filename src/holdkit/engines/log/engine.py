"""The log engine: state in memory, every batch one synced frame of an append-only log that is the truth.

The same log always gives the same state and the same answers. Nobody sees a batch before its frame is durable. One process at a time;
no high availability. Disk, clock and randomness are ports.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeAlias, TypeVar
from urllib.parse import quote

from ...core.bounds import Limits
from ...core.fold import fold
from ...core.import_ import Carried, check_room, chunks, not_empty, take_in
from ...core.limits import LIMITS_KEY
from ...core.model import SECOND
from ...core.reading import FindEntries, Query, ReadHistory, ReadJournal, ReadPoolHistory
from ...core.remembering import remembered_until
from ...core.view import View
from ...errors import EngineError, OutcomeUnknown
from ..clocks import Clock
from ..durability import ON_DISK
from ..port import Capabilities
from ..resident.engine import ResidentEngine
from ..resident.reads import answer
from ..settings import StoredLimits, check_asked, limits_as_created, stored_form
from .disk import Disk
from .journal import Batch, LogJournal, decode_batch, encode_batch
from .log import Log, check_names, mixed
from .seals import LogSeals
from .snapshots import newest_snapshot, write_snapshot

T = TypeVar("T")

Progress: TypeAlias = Callable[[int], None]
"""Told how many frames have been replayed so far."""

BOUNDED = Limits(max_pools=1_000_000, max_holds=1_000_000, max_operations=1_000_000, retry_window=600 * SECOND)
"""The bounds of a log that was given none."""


SNAPSHOT_ENTRIES = 100_000
"""A close writes a snapshot if so many entries have come since the last one."""


class LogEngine(ResidentEngine):
    """A directory of segments, held by this process alone."""

    durability = ON_DISK

    def __init__(
        self,
        disk: Disk,
        *,
        clock: Clock | None = None,
        limits: Limits | None = None,
        randomness: Callable[[int], bytes] = os.urandom,
        progress: Progress | None = None,
        segment_bytes: int | None = None,
    ) -> None:
        super().__init__(clock=clock, limits=limits or BOUNDED)
        self.url = f"log:///{quote(disk.name)}"
        self._disk, self._randomness = disk, randomness
        self._pid = os.getpid()
        self.restored_from = 0
        """The frame behind which the snapshot that was opened stood; 0 without one."""
        self._snapshot_seq = 0
        try:
            disk.lock()
        except BlockingIOError:
            disk.close()
            raise EngineError(f"{disk.name} is open in another process: a log has one writer at a time") from None
        self._log = (
            Log(disk, randomness) if segment_bytes is None else Log(disk, randomness, segment_bytes=segment_bytes)
        )
        self._journal: LogJournal = LogJournal(self._log)
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

    def _open(self, limits: Limits | None, progress: Progress | None) -> None:
        """Begin a log, or bring back the state of one: the newest good snapshot, then the frames behind it."""
        where, names = self._disk.name, self._disk.names()
        if not check_names(where, names):
            self._log.create(stored_form(self.limits))
            return
        self._log.open_segments()
        created = limits_as_created(where, self._log.settings, limits, BOUNDED)
        found = newest_snapshot(self._disk, names)
        self.stored = StoredLimits(created, None if found is None else found[1].records.get(LIMITS_KEY))
        about = None if found is None else found[0]
        if found is not None:
            self._tables, self.restored_from = found[1], found[0].after_frame
            self._journal.last_seq = self._snapshot_seq = found[0].next_seq - 1
        for frame in self._log.recover():
            if frame.number > self.restored_from:
                self._replay(decode_batch(frame.body))
            elif about is not None and frame.number == about.after_frame and about.chain != self._log.chain.hex():
                raise mixed(where)
            if progress is not None:
                progress(frame.number)
        if about is not None and (about.log_id != self._log.log_id or self._log.next_frame <= about.after_frame):
            raise mixed(where)
        check_asked(where, limits, self.stored, BOUNDED)
        self._log.settle(self._journal.last_seq + 1)
        for name in self._disk.names():
            if name.endswith(".new"):  # what a crash left half written
                self._disk.remove(name)

    def _replay(self, batch: Batch) -> None:
        """Fold one batch into a view, and write back what changed exactly as when it was live."""
        view = self._view(batch.slot)
        for entry in batch.entries:
            fold(view, entry)
        view.entries = batch.entries
        for operation in batch.answers(remembered_until(batch.slot, self.limits), view.loaded.next_seq):
            view.operations.put(operation.key, operation)
        self._put(view)
        self._prune(batch.slot)

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
        self._log.append(view.loaded.next_seq, encode_batch(view), len(view.entries))

    def _put(self, view: View) -> None:
        super()._put(view)
        self._journal.last_seq += len(view.entries)

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do beyond the port."""
        return Capabilities(lend=self, import_=self, seals=self._seals, rollups=self._rollups)

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

    def snapshot(self) -> None:
        """Write the tables down, so that the next opening is short."""
        with self._writing:
            self._check_open()
            log = self._log
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
            self._log.close()
            self._disk.close()
