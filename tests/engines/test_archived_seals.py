"""Seals of runs that have left the journal: with the files, whatever was changed there is named by its first broken run."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdkit
from holdkit.cli.output import FOUND
from holdkit.core.codec import decode_entry, encode_entry
from holdkit.core.personal import erase, fields
from holdkit.core.reading import JournalRow
from holdkit.core.seals import Seal, decode_seal, encode_seal, erased
from holdkit.engines.archive_files import (
    ArchivedEntry,
    ArchiveDirectory,
    ArchivedLine,
    ArchivedSeal,
    archived_entry,
    read_archive_file,
    read_head,
    write_archive_file,
)
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealer
from holdkit.testing import FakeClock
from holdkit.wire.system import VerifyAnswer
from tests.conftest import Migrated
from tests.support.command_line import told

DAY = 86_400
Change = Callable[[list[ArchivedLine]], list[ArchivedLine]]


class Sealed:
    """A kernel with four sealed runs, of which three are archived."""

    def __init__(self, url: str, to: Path) -> None:
        self.url, self.to = url, to
        clock = FakeClock(1_700_000_000_000_000)
        self.hk = holdkit.connect(url, clock=clock)
        self.hk.create_pool("p", 100)
        sealer = Sealer(self.hk._executor.engine)
        for _ in range(3):
            for _ in range(3):
                self.hk.release(self.hk.hold("p", 1, ttl=60, actor="user:7"), actor="user:7")
            assert sealer.step(all_now=True) == 1
        clock.advance(9 * DAY)
        self.hk.admin.resize_pool("p", 90)
        assert sealer.step(all_now=True) == 1
        self.hk.admin.archive(before="1d", to=to)
        self.runs = [(1, 7), (8, 13), (14, 19), (20, 20)]

    def broken(self) -> list[tuple[str, str]]:
        found = verify_seals(self.hk._executor.engine, archive=self.to)
        return [(one.key.partition("/")[2], one.field) for one in found]

    def rewrite(self, change: Change) -> None:
        """The file, as somebody would write it who has changed its lines: every checksum is computed anew."""
        (file,) = ArchiveDirectory(self.to).files()
        lines = list(read_archive_file(file))
        write_archive_file(self.to, read_head(file), change(lines))


def altered(seq: int) -> Change:
    """Another actor in one entry."""

    def change(lines: list[ArchivedLine]) -> list[ArchivedLine]:
        return [
            archived_entry(JournalRow(seq, line.text.replace("user:7", "user:8"), line.lane))
            if isinstance(line, ArchivedEntry) and line.seq == seq
            else line
            for line in lines
        ]

    return change


def without_seals(lines: list[ArchivedLine]) -> list[ArchivedLine]:
    """The entries alone."""
    return [line for line in lines if isinstance(line, ArchivedEntry)]


@contextmanager
def made(url: str, to: Path) -> Iterator[Sealed]:
    sealed = Sealed(url, to)
    with sealed.hk:
        yield sealed


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Sealed]:
    with made(f"sqlite:///{tmp_path}/holds.db", tmp_path / "archive") as one:
        yield one


def test_archived_runs_are_checked_on_every_engine_that_archives(tmp_path: Path, migrated: Migrated) -> None:
    reports = list[tuple[int, int]]()
    for url in (f"sqlite:///{tmp_path}/holds.db", migrated(lanes=1)):
        with made(url, tmp_path / url.partition(":")[0]) as sealed:
            report = sealed.hk.admin.verify(
                archive=sealed.to, progress=lambda done, total: reports.append((done, total))
            )
            assert (report.differences, report.sealed) == ((), {0: 20})
            assert reports == sorted(reports), "progress goes on from the rows to the seals"
            reports.clear()
            sealed.rewrite(altered(9))
            assert sealed.broken() == [("8-13", "digest")]
            assert list(verify_seals(sealed.hk._executor.engine)) == [], "without the files, only the chain is known"


def test_what_was_done_to_a_file_is_named(sealed: Sealed) -> None:
    def other_seal(lines: list[ArchivedLine]) -> list[ArchivedLine]:
        first = next(index for index, line in enumerate(lines) if isinstance(line, ArchivedSeal))
        seal = decode_seal(lines[first].seal)  # type: ignore[union-attr]
        other = msgspec.structs.replace(seal, digest="0" * 64)
        return [*lines[:first], ArchivedSeal(msgspec.Raw(encode_seal(other))), *lines[first + 1 :]]

    (file,) = ArchiveDirectory(sealed.to).files()
    whole = file.path.read_bytes()
    for change, found in (
        (altered(1), []),  # a pool's creation has no actor: nothing is changed
        (altered(19), [("14-19", "digest")]),
        (other_seal, [("1-7", "archived seal")]),
        (without_seals, [("1-7", "archived seal")]),
    ):
        sealed.rewrite(change)
        assert sealed.broken() == found
        file.path.write_bytes(whole)
    file.path.write_bytes(gzip.compress(gzip.decompress(whole).replace(b"user:7", b"user:8")))
    assert sealed.broken() == [("1-7", "entries")]
    file.path.unlink()
    assert sealed.broken() == [("1-7", "entries")]


def test_an_erasure_is_lawful_if_file_and_database_know_of_it(sealed: Sealed) -> None:
    seals = sealed.hk._executor.engine.capabilities.seals
    assert seals is not None
    after: list[Seal] = []

    def change(lines: list[ArchivedLine], *, with_seal: bool) -> list[ArchivedLine]:
        (seal,) = [seal for seal in seals.read_seals(0, 0, 9) if seal.first == 8]
        out = []
        for line in lines:
            if isinstance(line, ArchivedEntry) and 8 <= line.seq <= 13:
                entry = decode_entry(line.text)
                paths = [path for path, value in fields(entry).items() if value == "user:7"]
                seal = erased(seal, line.seq, entry, paths)
                out.append(archived_entry(JournalRow(line.seq, encode_entry(erase(entry, paths, "erased:0")), 0)))
            elif with_seal and isinstance(line, ArchivedSeal) and decode_seal(line.seal).last == 13:
                out.append(ArchivedSeal(msgspec.Raw(encode_seal(seal))))  # type: ignore[arg-type]
            else:
                out.append(line)  # type: ignore[arg-type]
        after[:] = [seal]
        return out  # type: ignore[return-value]

    (file,) = ArchiveDirectory(sealed.to).files()
    whole = file.path.read_bytes()
    sealed.rewrite(lambda lines: change(lines, with_seal=True))
    assert sealed.broken() == [("8-13", "archived salts")], "the database was restored to before the erasure"
    erased_file = file.path.read_bytes()
    file.path.write_bytes(whole)
    sealed.rewrite(lambda lines: change(lines, with_seal=False))
    assert sealed.broken() == [("8-13", "digest")], "no salts fit what was erased"
    with closing(sqlite3.connect(sealed.url[10:])) as db, db:
        text = msgspec.json.encode(after[0].salts).decode()
        db.execute("update holdkit_seals set salts = ? where first = 8", (text,))
    assert sealed.broken() == [("8-13", "digest")], "those of the file do not"
    file.path.write_bytes(whole)
    assert sealed.broken() == [("8-13", "archived salts")], "the file was put back from before the erasure"
    file.path.write_bytes(erased_file)
    assert sealed.broken() == []


def test_an_erasure_meanwhile_is_no_difference(sealed: Sealed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seal is read, then an erasure commits, then the entries are read."""
    engine, hk = sealed.hk._executor.engine, sealed.hk
    hk.hold("p", 1, ttl=60, actor="user:9")
    Sealer(engine).step(all_now=True)
    store: Any = engine.capabilities.seals
    read_run, left = store.read_run, [1]

    def erase_first(*asked: Any) -> Any:
        if left:
            left.pop()
            with closing(sqlite3.connect(sealed.url[10:])) as db, db:
                first, body = db.execute("select seq, body from holdkit_journal order by seq desc limit 1").fetchone()
                (seal,) = [one for one in store.read_seals(0, 20, 9) if one.first == first]
                after = erased(seal, first, decode_entry(body), ["actor", "hold.actor"])
                entry = encode_entry(erase(decode_entry(body), ["actor", "hold.actor"], "erased:0"))
                db.execute("update holdkit_journal set body = ? where seq = ?", (entry, first))
                db.execute("update holdkit_seals set salts = ? where first = ?",
                           (msgspec.json.encode(after.salts).decode(), first))  # fmt: skip
        return read_run(*asked)

    monkeypatch.setattr(store, "read_run", erase_first)
    assert sealed.broken() == []
    assert not left


def test_on_the_command_line(sealed: Sealed) -> None:
    clean = told(VerifyAnswer, "admin", "verify", sealed.url, "--seals", "--archive", str(sealed.to))
    assert (clean.ok, clean.sealed) == (True, {"0": 20})
    sealed.rewrite(altered(9))
    for flags in (["--seals"], []):
        answer = told(VerifyAnswer, "admin", "verify", sealed.url, *flags, "--archive", str(sealed.to), code=FOUND)
        assert ("0/8-13", "digest") in [(one.key, one.field) for one in answer.found]
