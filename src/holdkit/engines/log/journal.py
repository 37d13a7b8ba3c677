"""The journal, read from the segments themselves: the log is the truth, nothing is kept twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from ...core.codec import encode_entry
from ...core.entries import Entry
from ...core.model import Key
from ...core.reading import JournalRow, touches
from .batches import decode_batch
from .log import Log


class LogJournal:
    """Entries by number, from durable frames only."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.last_seq = 0
        """The last entry whose effects can be seen: a frame is durable a moment before its batch is."""

    def forget(self, holds: Iterable[Key]) -> None:
        """Nothing to do: history stays in the log."""

    def after(self, seq: int, limit: int, tenant: str | None) -> list[JournalRow]:
        """Entries after a number, of one tenant or of all."""
        rows: list[JournalRow] = []
        last = self.last_seq
        for frame in self._log.frames(seq):
            for entry in decode_batch(frame.body).entries:
                if seq < entry.seq <= last and (tenant is None or entry.tenant == tenant):
                    rows.append(JournalRow(entry.seq, encode_entry(entry)))
                    if len(rows) == limit:
                        return rows
        return rows

    def about(self, tenant: str, subject: str, limit: int | None) -> list[JournalRow]:
        """A subject's story. Reads the whole log, but decodes only the frames that name the subject."""
        found = (entry for entry in self._naming(tenant, subject, 0) if entry.subject == subject)
        return [JournalRow(entry.seq, encode_entry(entry)) for entry in islice(found, limit)]

    def touching(self, tenant: str, pool: str, seq: int, limit: int) -> list[JournalRow]:
        """Entries after a number that touched a pool, found in the same way."""
        found = (entry for entry in self._naming(tenant, pool, seq) if touches(entry, pool))
        return [JournalRow(entry.seq, encode_entry(entry)) for entry in islice(found, limit)]

    def _naming(self, tenant: str, name: str, seq: int) -> Iterator[Entry]:
        """A tenant's entries after a number, in frames that have this text somewhere."""
        text, last = name.encode(), self.last_seq
        for frame in self._log.frames(seq):
            if text in frame.body:
                for entry in decode_batch(frame.body).entries:
                    if seq < entry.seq <= last and entry.tenant == tenant:
                        yield entry

    def at(self, seq: int) -> JournalRow | None:
        """The entry of this number, if it is there."""
        rows = self.after(seq - 1, 1, None) if 0 < seq <= self.last_seq else []
        return rows[0] if rows else None

    def end(self) -> JournalRow | None:
        """The last entry, if there is any."""
        return self.at(self.last_seq)

    def whole(self) -> Iterator[Entry]:
        """Every entry."""
        for frame in self._log.frames():
            yield from decode_batch(frame.body).entries
