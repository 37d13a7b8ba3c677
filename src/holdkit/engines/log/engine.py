"""The log engine: state in memory, every batch one synced frame of an append-only log that is the truth.

Same log, same state, same answers. A batch is seen by nobody before its frame is durable. One process at a time; no high
availability. Disk, clock and randomness are ports.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from ...core.fold import fold
from ...core.model import SECOND, Limits
from ...core.view import View
from ...errors import EngineError, OutcomeUnknown
from ..port import Clock
from ..resident.engine import ResidentEngine
from ..resident.tables import Tables
from ..settings import limits_in_force, stored_form
from .batches import Batch, decode_batch, encode_batch
from .disk import Disk
from .journal import LogJournal
from .log import Log
from .snapshots import Snapshot, chunks_of, read_snapshot, write_snapshot

Progress: TypeAlias = Callable[[int], None]
"""Told how many frames have been replayed so far."""

BOUNDED = Limits(max_pools=1_000_000, max_holds=1_000_000, max_operations=1_000_000, retry_window=600 * SECOND)
"""The bounds of a log that was given none."""


class LogEngine(ResidentEngine):
    """A directory of segments, held by this process alone."""

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
        self.url = f"log:///{disk.name}"
        self._disk, self._randomness = disk, randomness
        self._pid = os.getpid()
        try:
            disk.lock()
        except BlockingIOError:
            disk.close()
            raise EngineError(f"{disk.name} is open in another process: a log has one writer at a time") from None
        self._log = (
            Log(disk, randomness) if segment_bytes is None else Log(disk, randomness, segment_bytes=segment_bytes)
        )
        self._journal: LogJournal = LogJournal(self._log)
        try:
            self._open(limits, progress)
        except BaseException as error:
            self._log.close()
            disk.close()
            if isinstance(error, OSError):
                raise EngineError(f"cannot open the log {disk.name}: {error}") from error
            raise

    def _open(self, limits: Limits | None, progress: Progress | None) -> None:
        """Begin a log, or bring back the state of one: the newest good snapshot, then the frames behind it."""
        names = self._disk.names()
        foreign = [name for name in names if not name.endswith((".log", ".snapshot", ".new"))]
        if foreign:
            raise EngineError(
                f"{self._disk.name} holds {foreign[0]!r}, which is not ours: give the log a directory of its own"
            )
        if not any(name.endswith(".log") for name in names):
            if any(name.endswith(".snapshot") for name in names):
                raise EngineError(
                    f"{self._disk.name} has a snapshot but no segments: files are missing; restore a copy"
                )
            self._log.create(stored_form(self.limits))
            return
        snapshot = self._newest_snapshot(names)
        after = 0 if snapshot is None else snapshot[0].after_frame
        if snapshot is not None:
            self._tables = snapshot[1]
            self._journal.last_seq = snapshot[0].next_seq - 1
        fresh = True
        for frame in self._log.recover():
            if fresh:
                self.limits = limits_in_force(self._disk.name, self._log.settings, limits, BOUNDED)
                fresh = False
            if frame.number > after:
                self._replay(decode_batch(frame.body))
            if progress is not None:
                progress(frame.number)
        if fresh:
            self.limits = limits_in_force(self._disk.name, self._log.settings, limits, BOUNDED)
        if self._log.next_frame <= after:
            raise EngineError(
                f"{self._disk.name} ends at frame {self._log.next_frame - 1}, before its snapshot: files are missing"
            )
        if snapshot is not None and snapshot[0].log_id != self._log.log_id:
            raise EngineError(f"{self._disk.name} has a snapshot of another log: files were mixed; restore a copy")
        self._log.next_seq = self._journal.last_seq + 1

    def _newest_snapshot(self, names: list[str]) -> tuple[Snapshot, Tables] | None:
        for name in sorted((name for name in names if name.endswith(".snapshot")), reverse=True):
            found = read_snapshot(self._disk, name)
            if found is not None:
                return found
        return None

    def _replay(self, batch: Batch) -> None:
        """Put one batch into the tables, exactly as it was put when it was live."""
        for entry in batch.entries:
            fold(self._tables, entry)
            self._journal.last_seq = entry.seq
        for operation in batch.operations:
            self._tables.put_operation(operation)
        self._tables.last_slot = max(self._tables.last_slot, batch.slot)
        self._prune(batch.slot)

    def _persist(self, view: View) -> None:
        if os.getpid() != self._pid:
            raise EngineError(f"{self._disk.name} was opened before a fork: open it anew")
        first = view.loaded.next_seq
        self._log.append(first, encode_batch(view), len(view.entries))
        self._journal.last_seq = first + len(view.entries) - 1

    def snapshot(self) -> None:
        """Write the tables down, so that the next opening is short."""
        with self._writing:
            self._check_open()
            tables = self._tables
            about = Snapshot(1, self._log.log_id, self._log.next_frame - 1, self._journal.last_seq + 1,
                             tables.fence_floor, tables.last_slot, sum(1 for _ in chunks_of(tables)))  # fmt: skip
            try:
                write_snapshot(self._disk, about, tables, self._randomness)
            except OSError as error:
                raise EngineError(
                    f"{self._disk.name}: no snapshot could be written: {error}; the log is whole"
                ) from error

    def close(self) -> None:
        """Seal the log with an empty frame, so that damage to its last batch can be told from a torn tail."""
        with self._writing, self._lock:
            if self._closed:
                return
            self._closed = True
            if os.getpid() == self._pid:
                with suppress(EngineError, OutcomeUnknown):  # the log is whole without it
                    self._log.seal()
            self._log.close()
            self._disk.close()
