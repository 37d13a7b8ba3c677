"""The journal, read from the segments themselves: the log is the truth, nothing is kept twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from ...core.audit import Numbered
from ...core.codec import encode_entry
from ...core.model import Key
from ...core.reading import JournalRow, touches
from .batches import numbered
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
            for number, entry in numbered(frame):
                if seq < number <= last and (tenant is None or entry.tenant == tenant):
                    rows.append(JournalRow(number, encode_entry(entry)))
                    if len(rows) == limit:
                        return rows
        return rows

    def about(self, tenant: str, subject: str, limit: int | None) -> list[JournalRow]:
        """A subject's story. Reads the whole log, but decodes only the frames that name the subject."""
        found = (row for row in self._naming(tenant, subject, 0) if row[1].subject == subject)
        return [JournalRow(number, encode_entry(entry)) for number, entry in islice(found, limit)]

    def touching(self, tenant: str, pool: str, seq: int, limit: int) -> list[JournalRow]:
        """Entries after a number that touched a pool, found in the same way."""
        found = (row for row in self._naming(tenant, pool, seq) if touches(row[1], pool))
        return [JournalRow(number, encode_entry(entry)) for number, entry in islice(found, limit)]

    def _naming(self, tenant: str, name: str, seq: int) -> Iterator[Numbered]:
        """A tenant's entries after a number, in frames that have this text somewhere."""
        text, last = name.encode(), self.last_seq
        for frame in self._log.frames(seq):
            if text in frame.body:
                for number, entry in numbered(frame):
                    if seq < number <= last and entry.tenant == tenant:
                        yield number, entry

    def at(self, seq: int) -> JournalRow | None:
        """The entry of this number, if it is there."""
        rows = self.after(seq - 1, 1, None) if 0 < seq <= self.last_seq else []
        return rows[0] if rows else None

    def end(self) -> JournalRow | None:
        """The last entry, if there is any."""
        return self.at(self.last_seq)

    def whole(self) -> Iterator[Numbered]:
        """Every entry."""
        for frame in self._log.frames():
            yield from numbered(frame)
