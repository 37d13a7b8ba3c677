# Generated from ../_async/reads.py by tools/gen_sync.py: do not edit.
"""Reads: pools, holds, records, the journal. They count a due leg as returned, and write nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from ...core.codec import decode_entry, digest
from ...core.commands import PutRecord
from ...core.fold import reconstruct as fold_history
from ...core.ladders.finding import missing
from ...core.model import Pool, Record, State
from ...core.outcomes import Reason, Refusal
from ...core.reading import (
    FindEnd,
    FindHold,
    FindPool,
    FindRecord,
    JournalRow,
    ListHolds,
    ListPools,
    ListRecords,
    ReadHistory,
    ReadJournal,
)
from ...core.validation import hold_id, invalid, pool_id, text, whole
from ...errors import CursorLost, VersionConflict
from ..cursor import decode_cursor, encode_cursor
from ..spelling import reference
from ..surface import Hold, JournalEntry, VerifyReport, refusal_of
from .verbs import Verbs

CURSORS = "~cursor"


class Reads(Verbs):
    """Everything that only looks."""

    def pool(self, id: str) -> Pool:
        """One pool. Raises `PoolNotFound`."""
        pool_id(id, "id", faces=True)
        found = self._submitter.read(FindPool((self._tenant, id)))
        if found is None:
            raise refusal_of(Refusal(Reason.POOL_NOT_FOUND, id))
        return found

    def pools(self, prefix: str = "", *, after: str = "", limit: int = 100) -> list[Pool]:
        """Pools in order of id; give the last id as `after` for the next page."""
        whole(limit, "limit", 1, 1_000)
        for field, value in (("prefix", prefix), ("after", after)):
            if value:
                text(value, field, 512)
        return self._submitter.read(ListPools(self._tenant, prefix, after, limit))

    def get(self, hold: Hold | str | UUID) -> Hold:
        """A hold as it is now, without its token. Raises `HoldNotFound` or `HoldRetired`."""
        id, _ = reference(hold, None)
        hold_id(id)
        found = self._submitter.read(FindHold((self._tenant, id)))
        if found is None:
            raise refusal_of(missing(id, self._limits.retention, self._submitter.engine.clock()))
        return Hold(found)

    def holds(
        self,
        *,
        pool: str | None = None,
        state: State | str | None = None,
        entity: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[Hold]:
        """Holds in order of id (which for minted ids is the order of birth); give the last id as `after`."""
        whole(limit, "limit", 1, 1_000)
        if state is not None and state not in set(State):
            raise invalid("state", "state_unknown", f"must be one of {', '.join(State)}")
        for field, value in (("pool", pool), ("entity", entity), ("after", after or None)):
            if value is not None:
                text(value, field, 512)
        wanted = None if state is None else State(state)
        query = ListHolds(self._tenant, pool, wanted, entity, after, limit)
        return [Hold(row) for row in self._submitter.read(query)]

    def record(self, kind: str, id: str) -> Record | None:
        """One record, or None."""
        return self._submitter.read(FindRecord((self._tenant, text(kind, "kind", 64), text(id, "id", 512))))

    def records(self, kind: str, *, after: str = "", limit: int = 100) -> list[Record]:
        """Records of a kind in order of id."""
        whole(limit, "limit", 1, 1_000)
        return self._submitter.read(ListRecords(self._tenant, text(kind, "kind", 64), after, limit))

    def history(self, subject: Hold | str | UUID) -> list[JournalEntry]:
        """All that happened to a hold (or to a pool, by its id), in journal order."""
        name = subject if isinstance(subject, str) and not subject.startswith("hk1.") else reference(subject, None)[0]
        rows = self._submitter.read(ReadHistory(self._tenant, text(name, "subject", 600)))
        return [JournalEntry(row, decode_entry(row.text)) for row in rows]

    def journal(self, *, after: str | None = None, limit: int = 1_000) -> list[JournalEntry]:
        """Entries in order, behind a cursor (an entry's `cursor`). Raises `CursorLost` if the journal was cut back."""
        whole(limit, "limit", 1, 10_000)
        rows = self._rows(0 if after is None else self._seek(after), limit)
        return [entry for entry in map(_entry, rows) if not _own(entry)]

    def cursor(self) -> str:
        """A cursor behind everything that is in the journal now."""
        end = self._submitter.read(FindEnd())
        return encode_cursor(end.seq, digest(end.text))

    def follow(
        self, name: str | None = None, *, after: str | None = None, wait: bool = True, poll: float = 0.5
    ) -> Iterator[JournalEntry]:
        """Entries as they happen, none skipped. With a `name` the place is kept durably: an entry counts as seen once the
        loop asks for the next one behind its page, so after a crash the last page may come again (at least once).

        Woken at once by commits of this kernel, within `poll` seconds by those of other processes; ends on `close`, or
        with `wait=False` at the end of the journal.
        """
        kept = None if name is None else self.record(CURSORS, text(name, "name", 255))
        version = 0 if kept is None else kept.version
        place = after if kept is None else decode_text(kept.body)
        seq = 0 if place is None else self._seek(place)
        committed = self._submitter.committed
        while not committed.closed:
            seen = committed.count
            rows = self._rows(seq, 500)
            fresh = [entry for entry in map(_entry, rows) if not _own(entry)]
            for entry in fresh:
                yield entry
            if rows:
                seq = rows[-1].seq
            if fresh and name is not None:
                version = self._keep_place(name, fresh[-1].cursor, version)
            if not rows:
                if not wait:
                    return
                committed.wait(seen, poll)

    def _keep_place(self, name: str, cursor: str, version: int) -> int:
        command = PutRecord(tenant=self._tenant, kind=CURSORS, id=name, body=f'"{cursor}"', if_version=version)
        try:
            done = self._do(command, faces=True)
        except VersionConflict:
            raise CursorLost(
                f"another follower named {name!r} moved the cursor: give each follower its own name"
            ) from None
        assert done.record is not None
        return done.record.version

    def _rows(self, after: int, limit: int) -> list[JournalRow]:
        return self._submitter.read(ReadJournal(self._tenant, after, limit))

    def _seek(self, cursor: str) -> int:
        """The number a cursor stands for, once it is certain that its entry is still what it was."""
        seq, seen = decode_cursor(cursor)
        if seq == 0:
            return 0
        rows = self._submitter.read(ReadJournal(None, seq - 1, 1))
        if not rows or rows[0].seq != seq or digest(rows[0].text) != seen:
            raise CursorLost(f"entry {seq} is no longer what this cursor saw: the journal was cut back; start anew")
        return seq

    def verify(self) -> VerifyReport:
        """Fold the whole journal and compare it with every stored row; names each difference, changes nothing."""
        return self._submitter.call(lambda: VerifyReport(tuple(self._submitter.engine.verify())))


def _entry(row: JournalRow) -> JournalEntry:
    return JournalEntry(row, decode_entry(row.text))


def _own(entry: JournalEntry) -> bool:
    """Our own bookkeeping: a follower that saw its cursor move would move it again, for ever."""
    return entry.entry.record is not None and entry.entry.record.kind.startswith("~")


def decode_text(body: str) -> str:
    """The text of a JSON string."""
    return body.strip('"')


def reconstruct(history: Iterable[JournalEntry]) -> Hold | None:
    """Fold one hold's history to its final state."""
    row = fold_history([item.entry for item in history])
    return None if row is None else Hold(row)
