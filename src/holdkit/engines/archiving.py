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
from msgspec import Struct

from ..core.audit_rows import Difference, Folded, row_name
from ..core.baseline import (
    FLOOR,
    HOLD,
    POOL,
    RECORD,
    TALLY,
    ArchivedLane,
    Baseline,
    BaselineRow,
    RowKey,
    encode_row,
    entry_of_row,
    rows_needed,
)
from ..core.entries import Entry
from ..core.model import Key, Slot
from ..core.personal import text_digest
from ..core.reading import JournalRow, entry_of
from ..errors import EngineError
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
    """One run of archiving. Nobody else archives, or changes the baseline, meanwhile."""

    pace: Pace
    """Says how many entries the next `drop` takes."""

    def lanes(self) -> list[ArchivableLane]:
        """Every lane, in order."""
        ...

    def read(self, lane: int, after: int, limit: int) -> Sequence[JournalRow]:
        """The next entries of a lane behind a number."""
        ...

    def drop(self, archived: ArchivedLane, rows: Sequence[JournalRow], place: str) -> ArchivedLane:
        """Fold the next entries of a lane into its baseline and delete them, in one transaction. A file on disk has them. Returns how
        far the lane is archived now. Tells the pace how long writers waited, which rests."""
        ...

    def tidy(self, archived: ArchivedLane) -> None:
        """Remove from a lane's baseline the holds that nothing needs any more, in transactions of their own."""
        ...


ArchivedEntries: TypeAlias = Callable[[int, int], Iterator[JournalRow]]
"""The archived entries of a lane, through a number; raises `EngineError` if they are not all there."""


class Archiving(Protocol):
    """Old entries can leave the journal."""

    def archiver(self) -> AbstractContextManager[Archiver]:
        """Begin a run; `EngineError` if another one is under way. An erasure holds this lock too: entries that left for a file while
        it searches would not be erased. And so does whoever stores the first seal of a lane: it covers what is in no file."""
        ...

    def verify_with(
        self, archive: ArchivedEntries, progress: Progress | None = None
    ) -> Generator[Difference, None, None]:
        """The same as `Engine.verify`, with the archived entries in place of the baseline, which is compared with them."""
        ...


class Step(NamedTuple):
    """What one transaction writes."""

    archived: ArchivedLane
    """As it is afterwards."""
    put: list[tuple[RowKey, str]]
    remove: list[RowKey]


def step_of(
    archived: ArchivedLane,
    rows: Sequence[JournalRow],
    place: str,
    load: Callable[[Sequence[RowKey]], Mapping[RowKey, str]],
    still_needed: Callable[[Sequence[Key], int], Collection[Key]],
) -> Step:
    """Fold these entries, which follow the archived ones, onto the rows that `load` gives. `still_needed` says which of some ended
    holds are stored, or told of by an entry behind a number."""
    assert rows[0].seq == archived.through + 1, "entries leave in order"
    entries, last = [entry_of(row) for row in rows], rows[-1]
    baseline = Baseline(load(rows_needed(entries)))
    for entry in entries:
        baseline.add(entry)
    leaving = baseline.leaving()
    needed = still_needed(leaving, last.seq) if leaving else ()
    baseline.forget(key for key in leaving if key not in needed)
    after = ArchivedLane(
        last.lane, last.seq, max(archived.slot, baseline.slot), text_digest(last.text), place, archived.edition
    )
    changed = baseline.changed.items()
    return Step(
        after, [(key, body) for key, body in changed if body is not None], [k for k, body in changed if body is None]
    )


def row_checksum(lane: int, key: RowKey, body: str) -> int:
    """Of a row of the baseline: names one that was changed by hand."""
    return crc32("\0".join((str(lane), *key, body)).encode())


def archived_checksum(archived: ArchivedLane) -> int:
    """Of what is known about an archived lane."""
    columns: Iterable[object] = (
        archived.lane, archived.through, archived.slot, archived.digest, archived.place, archived.edition
    )  # fmt: skip
    return crc32("\0".join(map(str, columns)).encode())


# What `verify` checks


def check_row(lane: int, row: BaselineRow, crc: int) -> Iterator[Difference]:
    """A row of the baseline must match its checksum."""
    expected = row_checksum(lane, row.key, row.body)
    if crc != expected:
        yield Difference("baseline", _name(row), "crc", str(crc), str(expected))


def _name(row: BaselineRow) -> str:
    return f"{row.kind} {row_name((row.tenant, row.part, row.id) if row.part else (row.tenant, row.id))}"


def baseline_entries(archived: ArchivedLane, rows: Iterable[tuple[BaselineRow, int]]) -> Iterator[Entry | Difference]:
    """A lane's baseline as entries, and what is wrong with its rows."""
    for row, crc in rows:
        yield from check_row(archived.lane, row, crc)
        try:
            yield entry_of_row(row, archived.slot)
        except msgspec.DecodeError as error:
            yield Difference("baseline", _name(row), "body", str(error), "a row")


def compare_baseline(lane: int, rows: Iterable[tuple[BaselineRow, int]], folded: Folded) -> Iterator[Difference]:
    """Each row of a lane's baseline against what the archived entries fold to. (A row that is missing shows up when the kept entries
    are folded onto the baseline alone.)"""
    for row, crc in rows:
        yield from check_row(lane, row, crc)
        kind, tenant, id, part = row.key
        found: object
        if kind == HOLD:
            found = folded.holds.get((tenant, id))
        elif kind == RECORD:
            found = folded.records.get((tenant, part, id))
        elif kind == TALLY:
            found = folded.tallies.get((tenant, id, part))
        else:
            found = folded.pools.get((tenant, id)) if kind == POOL else folded.floors.get((tenant,))
        says = "missing" if found is None else encode_row(found)
        if says != row.body and kind != FLOOR:  # a tenant's floor is the highest of all lanes
            yield Difference("baseline", _name(row), "body", row.body, says)


def moved_meanwhile(lane: int) -> EngineError:
    """The error for a lane whose archive was moved by somebody else."""
    return EngineError(f"another process archives lane {lane}: nothing was done; wait until it ends, and run it again")


class ArchiveUnderWay(EngineError):
    """A run of archiving, or an erasure, is under way."""


def under_way(what: str) -> EngineError:
    """The error for a second run, or an erasure, at the same time."""
    return ArchiveUnderWay(f"another process archives {what}, or erases there: wait until it ends")
