"""Archive files: what is written is read back, and whatever is changed, cut, renamed or missing is named."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from holdkit.core.baseline import KnownFile
from holdkit.core.reading import JournalRow
from holdkit.engines.archive_files import (
    FORMAT,
    ArchivedEntry,
    ArchiveDirectory,
    ArchivedLine,
    ArchivedSeal,
    ArchiveFile,
    ArchiveHead,
    archived_entry,
    read_archive_file,
    read_head,
    write_archive_file,
)
from holdkit.errors import EngineError


def head(first: int, last: int, lane: int = 3) -> ArchiveHead:
    return ArchiveHead("archive", FORMAT, 8, lane, first, last, "generation")


def entry(seq: int, lane: int = 3) -> ArchivedEntry:
    return archived_entry(
        JournalRow(seq, f'{{"slot":{seq},"action":"record.put","subject":"a/\u00fc","tenant":""}}', lane)
    )


def written(directory: Path, first: int, last: int, lane: int = 3) -> ArchiveFile:
    return write_archive_file(directory, head(first, last, lane), (entry(seq, lane) for seq in range(first, last + 1)))[
        0
    ]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    lines: list[ArchivedLine] = [entry(7), entry(8), ArchivedSeal(msgspec.Raw(b'{"digest":"x"}')), entry(9)]
    file, known = write_archive_file(tmp_path, head(7, 9), lines)
    sha256 = hashlib.sha256(
        b"".join(gzip.decompress(file.path.read_bytes()).splitlines(keepends=True)[:-1])
    ).hexdigest()
    assert known == KnownFile(9, file.path.stat().st_size, sha256, str(tmp_path))
    assert file.path.name == "lane-0003-000000000007-000000000009.jsonl.gz"
    assert [msgspec.json.encode(line) for line in read_archive_file(file)] == [
        msgspec.json.encode(line) for line in lines
    ]
    assert read_head(file) == head(7, 9)
    assert ArchiveDirectory(tmp_path).files() == [file]
    assert list(ArchiveDirectory(tmp_path).rows(3, 6, 9)) == [entry(seq).row for seq in (7, 8, 9)]
    assert gzip.decompress(file.path.read_bytes()).count(b"\n") == 6, "JSON lines, for any other tool"
    assert file.path.stat().st_mode & 0o77 == 0


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = written(tmp_path, 1, 2)
    other = archived_entry(JournalRow(1, '{"slot":1,"action":"record.put","subject":"erased","tenant":""}', 3))
    assert write_archive_file(tmp_path, head(1, 2), [other, entry(2)])[0] == file
    assert [row.text for row in ArchiveDirectory(tmp_path).rows(3)] == [other.text, entry(2).text]
    assert len(list(tmp_path.iterdir())) == 1


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def lines() -> object:
        yield entry(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_archive_file(tmp_path, head(1, 2), lines())  # type: ignore[arg-type]  # an iterator that fails
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(EngineError, match="cannot write"):
        write_archive_file(tmp_path / "missing", head(1, 1), [entry(1)])


def test_files_follow_one_another(tmp_path: Path) -> None:
    written(tmp_path, 1, 2)
    written(tmp_path, 3, 4)
    written(tmp_path, 1, 1, lane=0)
    archive = ArchiveDirectory(tmp_path)
    assert archive.lanes() == [0, 3]
    assert [row.seq for row in archive.rows(3)] == [1, 2, 3, 4]
    assert [row.seq for row in archive.rows(3, 1, 3)] == [2, 3]
    with pytest.raises(EngineError, match="no file with entry 5 of lane 3"):
        list(archive.rows(3, 0, 6))
    (tmp_path / "lane-0003-000000000001-000000000002.jsonl.gz").unlink()
    with pytest.raises(EngineError, match="no file with entry 1 of lane 3"):
        list(archive.rows(3, 0, 4))
    with pytest.raises(EngineError, match="cannot read the archive"):
        ArchiveDirectory(tmp_path / "missing").files()


def test_a_gap_between_files_is_no_end(tmp_path: Path) -> None:
    written(tmp_path, 1, 2)
    written(tmp_path, 5, 6)
    archive = ArchiveDirectory(tmp_path)
    with pytest.raises(EngineError, match="no file with entry 3 of lane 3"):
        list(archive.rows(3))
    assert [row.seq for row in archive.rows(3, 4)] == [5, 6]


def test_what_only_looks_like_a_file_of_the_archive_is_passed_over(tmp_path: Path) -> None:
    """Another spelling of a name, which would be read in place of the file, and what is no file."""
    file = written(tmp_path, 1, 2)
    shutil.copy(file.path, tmp_path / "lane-00003-000000000001-000000000002.jsonl.gz")
    shutil.copy(file.path, tmp_path / "lane-0003-0000000000001-000000000002.jsonl.gz")
    (tmp_path / "lane-0003-000000000003-000000000004.jsonl.gz").mkdir()
    os.mkfifo(tmp_path / "lane-0003-000000000005-000000000006.jsonl.gz")
    assert ArchiveDirectory(tmp_path).files() == [file]


def rewritten(file: ArchiveFile, change: tuple[bytes, bytes]) -> None:
    data = gzip.decompress(file.path.read_bytes())
    assert change[0] in data
    file.path.write_bytes(gzip.compress(data.replace(*change)))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ((b'"slot":2', b'"slot":4'), "line 3 is not entry 2"),
        ((b'"seq":2', b'"seq":3'), "line 3 is not entry 2"),
        ((b'"generation":"generation"', b'"generation":"another"'), "checksum does not fit"),
        ((b'"format":1', b'"format":9'), "has format 9"),
        ((b'"first":1,', b'"first":2,'), "was renamed"),
        ((b'"holdkit"', b'"other"'), "first line is not the head"),
        ((b'"entries":3', b'"entries":2'), "checksum does not fit"),
        ((b'"line":"end"', b'"line":"eof"'), "line 5 is not a line of an archive"),
    ],
)
def test_a_changed_line_is_named(tmp_path: Path, change: tuple[bytes, bytes], says: str) -> None:
    file = written(tmp_path, 1, 3)
    rewritten(file, change)
    with pytest.raises(EngineError, match=f"{re.escape(str(file.path))}.*{says}"):
        list(read_archive_file(file))


def test_a_cut_or_foreign_file_is_named(tmp_path: Path) -> None:
    file = written(tmp_path, 1, 300)
    whole = file.path.read_bytes()
    for data in (b"", b"not gzip", whole[: len(whole) // 2], whole[:-1], gzip.compress(gzip.decompress(whole)[:-30])):
        file.path.write_bytes(data)
        with pytest.raises(EngineError, match="is damaged"):
            list(read_archive_file(file))
    file.path.write_bytes(gzip.compress(gzip.decompress(whole) + b"{}\n"))
    with pytest.raises(EngineError, match="lines follow its last one"):
        list(read_archive_file(file))


def damaged(whole: bytes) -> Iterator[bytes]:
    """Every bit flipped, every truncation, every pair of neighbouring parts of 16 bytes swapped."""
    for at in range(len(whole)):
        for bit in range(8):
            yield whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
        yield whole[:at]
        first, second = whole[at : at + 16], whole[at + 16 : at + 32]
        if first != second:
            yield whole[:at] + second + first + whole[at + 32 :]


def test_b07_r9_no_damage_is_read_as_something_else(tmp_path: Path) -> None:
    file = written(tmp_path, 1, 3)
    lines, whole = list(read_archive_file(file)), file.path.read_bytes()
    refused = read = 0
    for data in damaged(whole):
        file.path.write_bytes(data)
        try:
            assert list(read_archive_file(file)) == lines
            read += 1
        except EngineError as error:
            assert str(file.path) in str(error)  # noqa: PT017  # most images are refused, some are read
            refused += 1
    assert refused > 2_500
    assert read <= 8 * 10, "what gzip's own head says of time and system is not read"


def test_r9_swapped_files_are_named(tmp_path: Path) -> None:
    one, two = written(tmp_path, 1, 2), written(tmp_path, 3, 4)
    first, second = one.path.read_bytes(), two.path.read_bytes()
    one.path.write_bytes(second)
    two.path.write_bytes(first)
    for file in (one, two):
        with pytest.raises(EngineError, match=f"{re.escape(str(file.path))}.*was renamed"):
            list(read_archive_file(file))


def test_one_process_writes_at_a_time(tmp_path: Path) -> None:
    archive = ArchiveDirectory(tmp_path / "new")
    with (
        archive.taken(),
        pytest.raises(EngineError, match="another process writes into the archive"),
        ArchiveDirectory(tmp_path / "new").taken(),
    ):
        raise AssertionError("both have it")
    left = archive.path / ".lane-0003-000000000001-000000000002.jsonl.gz.x1.unfinished"
    left.write_bytes(b"half")
    theirs = archive.path / "notes.txt"
    theirs.write_text("not ours")
    with archive.taken():
        assert not left.exists()
        assert theirs.exists()
    with pytest.raises(EngineError, match="cannot use"), ArchiveDirectory(tmp_path / "no" / "parent").taken():
        raise AssertionError("there is no parent directory")
