"""The journal, read from the segments themselves: the log is the truth, nothing is kept twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

import msgspec
from msgspec import Struct

from ...core.archived import ReadBaseline
from ...core.audit import Numbered
from ...core.baseline import ArchivedLane, BaselineRow, entry_of_row
from ...core.codec import decode_entry, encode_entry
from ...core.entries import Entry
from ...core.model import Key, Slot
from ...core.outcomes import Done, Operation
from ...core.pages import Page
from ...core.reading import JournalRow, touches
from ...core.view import View
from .baseline import LogBaseline
from .log import Log
from .segments import Frame


class Grant(Struct, frozen=True, array_like=True, gc=False):
    """The record of an operation that placed a hold: all the rest of its answer stands in the entry."""

    entry: int
    """Which entry of the same frame."""
    fingerprint: str
    token: str | None


class Batch(Struct, frozen=True, array_like=True, gc=False):
    """One batch: all that replay needs."""

    slot: Slot
    entries: list[Entry]
    operations: list[Operation]
    grants: list[Grant]

    def answers(self, until: Slot, first_seq: int) -> Iterator[Operation]:
        """Every operation record, those of grants made whole again, whose window ends at `until`. `first_seq` is the number of
        the first entry."""
        yield from self.operations
        for grant in self.grants:
            entry = self.entries[grant.entry]
            assert entry.op is not None, "a grant without an operation id is not remembered"
            outcome = Done(entry.slot, entry.hold, token=grant.token)
            yield Operation(entry.tenant, entry.op, grant.fingerprint, until, outcome, first_seq + grant.entry)


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Batch)


def encode_batch(view: View) -> bytes:
    """The batch of the changes in a view."""
    entries, first = view.entries, view.loaded.next_seq
    operations: list[Operation] = []
    grants: list[Grant] = []
    for operation in view.operations.changed.values():
        assert operation is not None, "the core never removes an operation"
        outcome = operation.outcome
        if isinstance(outcome, Done) and outcome.hold is not None and operation.seq:
            at = operation.seq - first
            if entries[at].hold is outcome.hold:  # born in that entry: else it was changed, and is written whole
                grants.append(Grant(at, operation.fingerprint, outcome.token))
                continue
        operations.append(operation)
    return _encoder.encode(Batch(view.loaded.slot, entries, operations, grants))


def decode_batch(body: bytes) -> Batch:
    """The batch of a frame."""
    return _decoder.decode(body)


def numbered(frame: Frame) -> Iterator[Numbered]:
    """The entries of a frame, each with its number."""
    return enumerate(decode_batch(frame.body).entries, start=frame.first_seq)


class LogJournal:
    """Entries by number, from durable frames only."""

    permanent = True

    def __init__(self, log: Log) -> None:
        self._log = log
        self.last_seq = 0
        """The last entry whose effects can be seen: a frame is durable a moment before its batch is."""
        self.texts: Mapping[int, str] = {}
        """Entries that an erasure has rewritten and whose segments do not have them yet."""
        self.rewritten: Mapping[int, str] = {}
        """Archived entries that an erasure has rewritten and whose files do not have them yet."""
        self.baseline: LogBaseline | None = None
        """What stands for the entries that are archived. Some of them may be left in the first segment: nobody sees them."""

    @property
    def archived(self) -> ArchivedLane | None:
        """How far it is archived."""
        return None if self.baseline is None else self.baseline.archived

    @property
    def first_seq(self) -> int:
        """The first entry that is kept."""
        return 1 if self.baseline is None else self.baseline.archived.through + 1

    def read_baseline(self, query: ReadBaseline) -> Page[BaselineRow]:
        """A page of the baseline."""
        return Page() if self.baseline is None else self.baseline.page(query)

    def forget(self, holds: Iterable[Key]) -> None:
        """Nothing to do: history stays in the log."""

    def after(self, seq: int, tenant: str | None) -> Iterator[JournalRow]:
        """Entries after a number, of one tenant or of all."""
        last, seq = self.last_seq, max(seq, self.first_seq - 1)
        for frame in self._log.frames(seq):
            for number, entry in self.entries_of(frame):
                if seq < number <= last and (tenant is None or entry.tenant == tenant):
                    yield JournalRow(number, encode_entry(entry))

    def about(self, tenant: str, subject: str, seq: int) -> Iterator[JournalRow]:
        """The entries about a subject after a number. Reads the log from there, but decodes only the frames that name the subject."""
        found = (row for row in self._naming(tenant, subject, seq) if row[1].subject == subject)
        return chain(self._before(tenant, subject, seq), (JournalRow(at, encode_entry(entry)) for at, entry in found))

    def _before(self, tenant: str, subject: str, seq: int) -> Iterator[JournalRow]:
        """What stands for a subject's archived entries, if the reader has not seen them all."""
        baseline = self.baseline
        if baseline is not None and seq < baseline.archived.through:
            row = baseline.entry_about(tenant, subject)
            if row is not None:
                yield row

    def touching(self, tenant: str, pool: str, seq: int) -> Iterator[JournalRow]:
        """Entries after a number that touched a pool, found in the same way."""
        found = (row for row in self._naming(tenant, pool, seq) if touches(row[1], pool))
        return chain(self._before(tenant, pool, seq), (JournalRow(at, encode_entry(entry)) for at, entry in found))

    def _naming(self, tenant: str, name: str, seq: int) -> Iterator[Numbered]:
        """A tenant's entries after a number, in frames that have this text somewhere."""
        text, last, seq = name.encode(), self.last_seq, max(seq, self.first_seq - 1)
        for frame in self._log.frames(seq):
            if text in frame.body or self.texts:
                for number, entry in self.entries_of(frame):
                    if seq < number <= last and entry.tenant == tenant:
                        yield number, entry

    def at(self, seq: int) -> JournalRow | None:
        """The entry of this number, if it is there."""
        return next(self.after(seq - 1, None), None) if self.first_seq <= seq <= self.last_seq else None

    def end(self) -> JournalRow | None:
        """The last entry, if there is any."""
        return self.at(self.last_seq)

    def whole(self) -> Iterator[Numbered]:
        """Every entry; the baseline for those that are archived."""
        if self.baseline is not None:
            archived, rows = self.baseline.archived, self.baseline.head.rows
            for number, row in enumerate(self.baseline.rows(), archived.through + 1 - rows):
                yield number, entry_of_row(row, archived.slot)
        yield from self.kept()

    def kept(self) -> Iterator[Numbered]:
        """Every entry that is not archived."""
        first = self.first_seq
        for frame in self._log.frames(first - 1):
            yield from (row for row in self.entries_of(frame) if row[0] >= first)

    def entries_of(self, frame: Frame) -> Iterator[Numbered]:
        """The entries of a frame as they are now."""
        texts = self.texts
        for number, entry in numbered(frame):
            yield number, decode_entry(texts[number]) if number in texts else entry
