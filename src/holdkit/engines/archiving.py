"""Archiving as engines see it: entries are folded into the baseline and deleted, some at a time. Which entries go, and into which
files, is decided above (`holdkit.kernel.archive`).

Safe to be killed anywhere: each step is one transaction, which moves `ArchivedLane.through` only from where the step before left it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final, NamedTuple, Protocol, TypeAlias
from zlib import crc32

import msgspec
from msgspec import Struct, structs

from ..core.audit_rows import Difference
from ..core.baseline import (
    COUNTED,
    HOLD,
    TOTAL_KEY,
    ArchivedLane,
    Baseline,
    BaselineTotal,
    KnownFile,
    RowKey,
    encode_row,
    file_key,
    rows_touched,
)
from ..core.model import Key, Slot
from ..core.personal import text_digest
from ..core.reading import JournalRow, entry_of
from ..errors import EngineError, PromiseBroken, plain
from .archive_pace import Pace
from .progress import Progress

STEP: Final = 1_000
"""Entries that one transaction archives at most, and that are read at a time."""


class ArchivableLane(Struct, frozen=True):
    """What of a lane may be archived."""

    archived: ArchivedLane
    """How far it is archived; through 0 if nothing was."""
    upto: int
    """The last entry that may leave the journal: not the newest, nor one that a kept operation record refers to."""
    before: Slot | None = None
    """Entries from this slot on may not leave the journal either."""


class Archiver(Protocol):
    """One run of archiving. A lock keeps other runs, and other changes of the baseline, out until it ends."""

    pace: Pace
    """Says how many entries the next `drop` takes."""

    def lanes(self) -> list[ArchivableLane]:
        """Return every lane, in order."""
        ...

    def read(self, lane: int, after: int, limit: int) -> Sequence[JournalRow]:
        """Return the next entries of a lane behind a number."""
        ...

    def drop(self, archived: ArchivedLane, rows: Sequence[JournalRow], first: int, file: KnownFile) -> ArchivedLane:
        """Fold the next entries of a lane into its baseline and delete them, in one transaction. A file on disk has them, which begins
        with the entry `first`; the transaction stores what is known of it. Returns how far the lane is archived now. Tells the pace how
        long writers waited, which rests."""
        ...

    def tidy(self, archived: ArchivedLane) -> None:
        """Remove from a lane's baseline the holds that nothing needs any more, in transactions of their own."""
        ...


ArchivedEntries: TypeAlias = Callable[[int, int], Iterator[JournalRow | Difference]]
"""The archived entries of a lane, through a number, and what is wrong with their files; raises `EngineError` if the entries are not all
there."""


class Archiving(Protocol):
    """Old entries can leave the journal."""

    def archiver(self) -> AbstractContextManager[Archiver]:
        """Begin a run; raise `EngineError` if another one is under way. An erasure takes this lock too, because it would miss entries
        that left for a file while it searches; and so does the writer of a lane's first seal, which covers what is in no file."""
        ...

    def verify_with(
        self, archive: ArchivedEntries, progress: Progress | None = None
    ) -> Generator[Difference, None, None]:
        """Verify as `Engine.verify` does, and compare the archived entries with the baseline instead of trusting it."""
        ...


class StoredRow(NamedTuple):
    """A row of the baseline as it is stored."""

    body: str
    crc: int


class StoredBaseline(Protocol):
    """Read a lane's baseline before changing it. The caller holds the lock that keeps other changes out."""

    def load(self, keys: Sequence[RowKey]) -> Mapping[RowKey, StoredRow]:
        """Return those of these rows that are stored."""
        ...

    def needed(self, holds: Sequence[Key], behind: int) -> Collection[Key]:
        """Return those of these holds that are stored, or that an entry behind a number is about."""
        ...

    def measure(self) -> tuple[int, int]:
        """Return the number of rows that a total counts, and the sum of their checksums. Reads all of them."""
        ...


class Step(NamedTuple):
    """What one transaction writes."""

    archived: ArchivedLane
    """As it is afterwards."""
    put: list[tuple[RowKey, str]]
    remove: list[RowKey]


def step_of(
    archived: ArchivedLane, rows: Sequence[JournalRow], first: int, file: KnownFile, stored: StoredBaseline
) -> Step:
    """Fold these entries, which follow the archived ones, onto the stored rows. A file that begins with the entry `first` has them."""
    assert rows[0].seq == archived.through + 1, "entries leave in order"
    entries, last = [entry_of(row) for row in rows], rows[-1]
    loaded = stored.load([*rows_touched(entries), file_key(first), TOTAL_KEY])
    baseline = Baseline({key: row.body for key, row in loaded.items()})
    for entry in entries:
        try:
            baseline.add(entry)
        except PromiseBroken as broken:
            raise EngineError(
                f"the baseline of lane {last.lane} lacks what an entry tells of ({plain(broken)}): "
                "run `holdkit admin verify`; nothing was archived"
            ) from None
    leaving = baseline.leaving()
    needed = stored.needed(leaving, last.seq) if leaving else ()
    baseline.forget(key for key in leaving if key not in needed)
    after = ArchivedLane(
        last.lane, last.seq, max(archived.slot, baseline.slot), text_digest(last.text), file.place, archived.edition
    )
    put = [(key, body) for key, body in baseline.changed.items() if body is not None]
    put.append((file_key(first), encode_row(file)))
    return with_total(archived, after, put, [k for k, body in baseline.changed.items() if body is None], loaded, stored)


def step_without(archived: ArchivedLane, holds: Sequence[Key], stored: StoredBaseline) -> Step:
    """Remove these holds from a baseline."""
    after = structs.replace(archived, edition=archived.edition + 1)
    gone: list[RowKey] = [(HOLD, *key, "") for key in holds]
    return with_total(archived, after, [], gone, stored.load([*gone, TOTAL_KEY]), stored)


def with_total(
    before: ArchivedLane,
    after: ArchivedLane,
    put: Sequence[tuple[RowKey, str]],
    remove: Sequence[RowKey],
    loaded: Mapping[RowKey, StoredRow],
    stored: StoredBaseline,
) -> Step:
    """Return the step that puts and removes these rows, with the total afterwards. `loaded` has all of them as they are stored, and the
    total. A release from before there were totals has left none, or one of an earlier state: then the rows are counted."""
    total = loaded.get(TOTAL_KEY)
    known = None if total is None else decode_total(total.body)
    if known is not None and (known.through, known.edition) == (before.through, before.edition):
        rows, checksums = known.rows, known.checksums
    else:
        rows, checksums = stored.measure()
    replaced = [loaded[key].crc for key in {*remove, *(key for key, _ in put)} if key in loaded and key[0] in COUNTED]
    new = [row_checksum(after.lane, key, body) for key, body in put if key[0] in COUNTED]
    rows, checksums = rows + len(new) - len(replaced), checksums + sum(new) - sum(replaced)
    body = encode_row(BaselineTotal(after.through, after.edition, rows, checksums))
    return Step(after, [*put, (TOTAL_KEY, body)], [*remove])


def decode_total(body: str) -> BaselineTotal | None:
    """Return the total of a row's body; None if it is none."""
    try:
        return _total.decode(body)
    except msgspec.DecodeError:
        return None


_total: Final = msgspec.json.Decoder(BaselineTotal)


def row_checksum(lane: int, key: RowKey, body: str) -> int:
    """Return the checksum of a row of the baseline, which shows a change by hand."""
    return crc32("\0".join((str(lane), *key, body)).encode())


def archived_checksum(archived: ArchivedLane) -> int:
    """Return the checksum over the stored facts of an archived lane."""
    columns: Iterable[object] = (
        archived.lane, archived.through, archived.slot, archived.digest, archived.place, archived.edition
    )  # fmt: skip
    return crc32("\0".join(map(str, columns)).encode())


def moved_meanwhile(lane: int) -> EngineError:
    """Return the error for a lane that another process archived meanwhile."""
    return EngineError(f"another process archives lane {lane}: nothing was done; wait until it ends, and run it again")


class ArchiveUnderWay(EngineError):
    """A run of archiving, or an erasure, is under way."""


def under_way(what: str) -> EngineError:
    """Return the error for a second run, or an erasure, at the same time."""
    return ArchiveUnderWay(f"another process archives {what}, or erases there: wait until it ends")
