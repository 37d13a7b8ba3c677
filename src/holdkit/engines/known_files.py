"""Archive files against what the database knows of them (`core.baseline.KnownFile`).

A file that was damaged, swapped, or put back from before an erasure differs from that, even if all checksums in it were computed anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..core.audit_rows import Difference
from ..core.baseline import KnownFile
from ..errors import EngineError
from .archive_files import ArchiveDirectory, ArchiveEnd, ArchiveFile


def file_differences(
    file: ArchiveFile, known: Mapping[int, KnownFile], pending: Mapping[int, str], through: int
) -> Iterator[Difference]:
    """Yield the differences of a file that show without reading it. `known` has the files of its lane, `pending` the texts that an
    erasure is still to write into them."""
    one = known.get(file.first)
    if one is None:
        if known and min(known) < file.first <= through:
            yield difference(file, "file", "there", "missing")
    elif file.last != one.last:
        yield difference(file, "last entry", file.last, one.last)
    elif file.size != one.size and not has_any(file, pending):
        yield difference(file, "size", file.size, one.size)


def end_differences(
    file: ArchiveFile, end: ArchiveEnd, known: Mapping[int, KnownFile], pending: Mapping[int, str]
) -> Iterator[Difference]:
    """Yield the differences of a file that was read: its checksums fit its lines, but these may be others than were archived."""
    one = known.get(file.first)
    if one is not None and one.sha256 != end.sha256 and not has_any(file, pending):
        yield difference(file, "sha256", end.sha256, one.sha256)


def refusal(directory: ArchiveDirectory, found: Difference, advice: str) -> EngineError:
    """Return the error of a job that changes nothing because of a file."""
    return EngineError(
        f"{directory.path / found.key}: {found.field} is {found.stored}, and this database knows {found.expected}. The file was damaged, "
        "removed or swapped, or it was erased after the copy was made from which this database was restored, or is of another database. "
        f"{advice}"
    )


def has_any(file: ArchiveFile, pending: Mapping[int, str]) -> bool:
    """Return whether an erasure is still to write some of these entries into a file."""
    return any(file.first <= seq <= file.last for seq in pending)


def difference(file: ArchiveFile, field: str, found: object, known: object) -> Difference:
    """Return a difference of a file."""
    return Difference("archive", file.path.name, field, str(found), str(known))
