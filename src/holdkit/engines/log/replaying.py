"""Replay: the frames of a log are folded into tables, exactly as when they were live."""

from __future__ import annotations

from collections.abc import Callable

from ...core.bounds import Limits
from ...core.fold import fold
from ...core.limits import LIMITS_KEY
from ...core.remembering import remembered_until
from ...core.view import View
from ..resident.engine import ResidentEngine
from ..resident.tables import Tables
from ..settings import StoredLimits
from .baseline import LogBaseline
from .journal import LogJournal, decode_batch
from .log import Log
from .segments import Frame, chained


class Replaying(ResidentEngine):
    """Tables that follow a log. Without a disk it decides nothing: it is how an archiver computes a baseline."""

    _journal: LogJournal

    def replay(self, frame: Frame, upto: int | None = None) -> bool:
        """Fold the entries of the next frame that were not folded yet, up to a number, and write back what changed. Behind its last
        entry, remember its answers and prune, as the batch did. Returns whether that was reached."""
        batch, done = decode_batch(frame.body), self._journal.last_seq
        end = frame.first_seq + len(batch.entries)
        stop = end if upto is None else min(end, upto + 1)
        fresh = batch.entries[done + 1 - frame.first_seq : stop - frame.first_seq]
        view = self._view(batch.slot)
        for entry in fresh:
            fold(view, entry)
        view.entries = fresh
        if stop == end:
            for operation in batch.answers(remembered_until(batch.slot, self.limits), frame.first_seq):
                view.operations.put(operation.key, operation)
        self._put(view)
        if stop == end:
            self._prune(batch.slot)
        return stop == end

    def _put(self, view: View) -> None:
        super()._put(view)
        self._journal.last_seq += len(view.entries)


class ArchivedTables(Replaying):
    """The tables behind an entry of a log, computed anew from its baseline, or from its beginning."""

    def __init__(self, log: Log, created: Limits, baseline: LogBaseline | None) -> None:
        super().__init__(limits=created)
        self._log, self._journal = log, LogJournal(log)
        self.after_frame, self.chain = 0, b""
        """The last frame that is replayed as a whole, and the digest of all up to it."""
        if baseline is not None:
            self._tables = baseline.tables()
            self.stored = StoredLimits(created, self._tables.records.get(LIMITS_KEY))
            self._journal.last_seq = baseline.archived.through
            self.after_frame, self.chain = baseline.head.after_frame, bytes.fromhex(baseline.head.chain)

    @property
    def tables(self) -> Tables:
        """As they were behind the last entry that was replayed."""
        return self._tables

    def advance(self, upto: int, between: Callable[[], None]) -> None:
        """Replay up to an entry, which the log has. `between` is called between any two frames."""
        for frame in self._log.frames_from(self.after_frame + 1):
            between()
            if self._journal.last_seq >= upto:
                break
            if self.replay(frame, upto):
                self.after_frame, self.chain = frame.number, chained(self.chain, frame.checksum)
        assert self._journal.last_seq == upto, "the log has every entry"
