"""Archive files and seals of several lanes, changed by somebody who can write to the directory and to the database: whatever is forged,
swapped, missing, or put back from an older copy is named, also across lanes, and nothing is erased over it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import psycopg
import pytest
from msgspec import structs

import holdkit
from holdkit.core.archived import FindArchived
from holdkit.core.reading import JournalRow
from holdkit.core.seals import decode_seal, digest_of, encode_seal
from holdkit.engines.archive_files import (
    ArchivedEntry,
    ArchiveDirectory,
    ArchivedLine,
    ArchivedSeal,
    ArchiveFile,
    archived_entry,
    decoded,
    read_archive_file,
    read_head,
    write_archive_file,
)
from holdkit.kernel.anchors import read_anchor
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealing
from holdkit.testing import FakeClock
from holdkit.testing.postgres import ServerAddress
from tests.support.databases import Databases

DAY: Final = 86_400
LANES: Final = 4
PERSON: Final = "user:7"


class Attacked:
    """A database of four lanes, each with two archive files, seals, an anchor, and a person in all of them."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.to, self.anchor = url, folder / "archive", folder / "anchor"
        self.clock = FakeClock(1_700_000_000_000_000)
        self.hk = holdkit.connect(url, clock=self.clock)
        for number in range(8):
            self.hk.create_pool(f"p{number}", 100)
        for _ in range(2):
            for number in range(8):
                for who in (PERSON, "user:9"):
                    self.hk.confirm(self.hk.hold(f"p{number}", 1, ttl=600, actor=who, metadata={"n": who}), entity=who)
            Sealing(anchor=self.anchor).sealer(self.hk._executor.engine).step(all_now=True)
            self.clock.advance(2 * DAY)
            for number in range(8):
                self.hk.admin.resize_pool(f"p{number}", self.hk.pool(f"p{number}").total + 1)
            assert self.hk.admin.archive(before="1d", to=self.to).entries > 20
        assert [len(self.files(lane)) for lane in range(LANES)] == [2] * LANES
        self.whole = folder / "whole"
        shutil.copytree(self.to, self.whole)

    def files(self, lane: int) -> list[ArchiveFile]:
        return ArchiveDirectory(self.to).files(lane)

    def put_back(self) -> None:
        """The files as they were."""
        shutil.rmtree(self.to)
        shutil.copytree(self.whole, self.to)

    def rewrite(self, file: ArchiveFile, lines: Iterator[ArchivedLine], **head: int) -> None:
        """A file as somebody writes it who has changed its lines: every checksum is computed anew."""
        changed = structs.replace(read_head(file), **head)
        file.path.unlink()
        write_archive_file(self.to, changed, lines)

    def found(self) -> list[str]:
        """Everything that is named, with the files and the anchor; an error counts."""
        try:
            differences = [str(one) for one in self.hk.admin.verify(archive=self.to).differences]
            seals = verify_seals(self.hk._executor.engine, anchor=self.anchor, archive=self.to)
            return [*differences, *(str(one) for one in seals if str(one) not in differences)]
        except holdkit.errors.EngineError as named:
            return [str(named)]

    def change(self, sql: str, *values: Any) -> int:
        with psycopg.connect(self.url) as tx:
            return tx.execute(sql.encode(), values).rowcount


@contextmanager
def world(server: ServerAddress, folder: Path) -> Iterator[Attacked]:
    """Nothing is found before the attacks, and nothing is left behind them."""
    database = Databases(server).take(lanes=LANES)
    one = Attacked(database.url, folder)
    assert one.found() == []
    yield one
    assert one.found() == []
    one.hk.close()
    server.drop_database(database.name)


@pytest.fixture(scope="module")
def attacked(postgres_server: ServerAddress, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """One for all attacks: each undoes what it has done."""
    with world(postgres_server, tmp_path_factory.mktemp("attacked")) as one:
        yield one


def lines_of(file: ArchiveFile) -> list[ArchivedLine]:
    return list(read_archive_file(file))


def another_name(file: ArchiveFile, seq: int | None = None) -> list[ArchivedLine]:
    """The lines of a file with another person in one of its entries."""
    lines = lines_of(file)
    named = [n for n, line in enumerate(lines) if isinstance(line, ArchivedEntry) and PERSON in line.text]
    line = lines[named[0]]
    assert isinstance(line, ArchivedEntry)
    lines[named[0]] = archived_entry(JournalRow(line.seq, line.text.replace(PERSON, "user:8"), line.lane))
    return lines


def sealed_anew(lines: list[ArchivedLine]) -> list[ArchivedLine]:
    """The same lines, with digests of the seals that fit them."""
    made, entries = list[ArchivedLine](), list[ArchivedEntry]()
    for line in lines:
        if isinstance(line, ArchivedEntry):
            entries.append(line)
        else:
            seal = decode_seal(line.seal)
            seal = structs.replace(seal, digest=digest_of(seal, [(one.seq, decoded(one.row)) for one in entries]))
            line, entries = ArchivedSeal(msgspec.Raw(encode_seal(seal))), []
        made.append(line)
    return made


def in_lane(lines: list[ArchivedLine], lane: int) -> Iterator[ArchivedLine]:
    """The same lines as if they were of another lane."""
    for line in lines:
        if isinstance(line, ArchivedEntry):
            yield archived_entry(JournalRow(line.seq, line.text, lane))
        else:
            yield ArchivedSeal(msgspec.Raw(encode_seal(structs.replace(decode_seal(line.seal), lane=lane))))


def forged_entry(one: Attacked, first: ArchiveFile, _: ArchiveFile) -> None:
    one.rewrite(first, iter(another_name(first)))


def forged_entry_and_seal(one: Attacked, first: ArchiveFile, _: ArchiveFile) -> None:
    one.rewrite(first, iter(sealed_anew(another_name(first))))


def forged_later_file(one: Attacked, _: ArchiveFile, second: ArchiveFile) -> None:
    one.rewrite(second, iter(sealed_anew(another_name(second))))


def entries_in_another_order(one: Attacked, first: ArchiveFile, _: ArchiveFile) -> None:
    """Two holds change places, each under the other's number."""
    lines = lines_of(first)
    where = [n for n, line in enumerate(lines) if isinstance(line, ArchivedEntry) and '"hold.held"' in line.text]
    a, b = lines[where[0]], lines[where[1]]
    assert isinstance(a, ArchivedEntry)
    assert isinstance(b, ArchivedEntry)
    lines[where[0]] = archived_entry(JournalRow(a.seq, b.text, a.lane))
    lines[where[1]] = archived_entry(JournalRow(b.seq, a.text, b.lane))
    one.rewrite(first, iter(lines))


def swapped_files(one: Attacked, first: ArchiveFile, second: ArchiveFile) -> None:
    a, b = first.path.read_bytes(), second.path.read_bytes()
    first.path.write_bytes(b)
    second.path.write_bytes(a)


def missing_first(one: Attacked, first: ArchiveFile, _: ArchiveFile) -> None:
    first.path.unlink()


def missing_last(one: Attacked, _: ArchiveFile, second: ArchiveFile) -> None:
    second.path.unlink()


def cut_off(one: Attacked, _: ArchiveFile, second: ArchiveFile) -> None:
    """The last entry is left out, and the file named for what it has."""
    lines = [line for line in lines_of(second) if isinstance(line, ArchivedEntry) and line.seq < second.last]
    one.rewrite(second, iter(lines), last=second.last - 1)


IN_A_LANE: Final = (
    forged_entry,
    forged_entry_and_seal,
    forged_later_file,
    entries_in_another_order,
    swapped_files,
    missing_first,
    missing_last,
    cut_off,
)


@pytest.mark.parametrize("attack", IN_A_LANE, ids=lambda attack: attack.__name__)
def test_what_was_done_to_a_lane_is_named(
    attacked: Attacked, attack: Callable[[Attacked, ArchiveFile, ArchiveFile], None]
) -> None:
    for lane in (0, LANES - 1):
        attack(attacked, *attacked.files(lane))
        found = attacked.found()
        attacked.put_back()
        assert found, f"lane {lane}"
        assert any(f"lane-{lane:04}" in words or f"lane {lane}" in words or f"{lane}/" in words for words in found), (
            found
        )
        assert attacked.found() == []


def test_files_of_two_lanes_that_are_swapped_are_named(attacked: Attacked) -> None:
    """Once as they are; once with the lane changed in every line, and all checksums computed anew."""
    first, other = attacked.files(0)[0], attacked.files(1)[0]
    swapped_files(attacked, first, other)
    assert "renamed" in attacked.found()[0]
    attacked.put_back()

    whole = {file.lane: lines_of(file) for file in (first, other)}
    attacked.rewrite(first, in_lane(whole[1], 0), first=other.first, last=other.last)
    attacked.rewrite(other, in_lane(whole[0], 1), first=first.first, last=first.last)
    found = attacked.found()
    attacked.put_back()
    assert found


def test_a_copy_under_the_name_of_another_lane_is_named(attacked: Attacked) -> None:
    first = attacked.files(2)[0]
    whole = lines_of(first)
    attacked.rewrite(attacked.files(3)[0], in_lane(whole, 3), first=first.first, last=first.last)
    found = attacked.found()
    attacked.put_back()
    assert found
    assert attacked.found() == []


SEALS: Final[dict[str, str]] = {
    "digest": "update holdkit.seals set digest = reverse(digest) where lane = 1 and first = 1",
    "salts": 'update holdkit.seals set salts = \'{"run":"00"}\' where lane = 1 and first = 1',
    "of another lane": "update holdkit.seals s set digest = o.digest, salts = o.salts, last = o.last, previous = o.previous "
    "from holdkit.seals o where s.lane = 1 and s.first = 1 and o.lane = 2 and o.first = 1",
    "the first removed": "delete from holdkit.seals where lane = 1 and first = 1",
    "the last removed": "delete from holdkit.seals where lane = 1 and first > 1",
    "all of a lane removed": "delete from holdkit.seals where lane = 1",
    "all removed": "delete from holdkit.seals",
    "another lane's journal": "update holdkit.journal set lane = 9 where lane = 1",
}


@pytest.mark.parametrize("sql", SEALS.values(), ids=SEALS.keys())
def test_what_was_done_to_the_seals_is_named(attacked: Attacked, sql: str) -> None:
    attacked.change("create table public.kept as table holdkit.seals")
    attacked.change("create table public.kept_journal as table holdkit.journal")
    try:
        assert attacked.change(sql) > 0
        assert attacked.found()
    finally:
        for table in ("seals", "journal"):
            attacked.change(f"delete from holdkit.{table}")
        attacked.change("insert into holdkit.seals table public.kept")
        attacked.change("insert into holdkit.journal table public.kept_journal")
        attacked.change("drop table public.kept, public.kept_journal")
    assert attacked.found() == []


ARCHIVED: Final[dict[str, str]] = {
    "a row of another lane": "update holdkit.baseline b set body = o.body from holdkit.baseline o "
    "where b.kind = 'pool' and o.kind = 'pool' and b.lane = 0 and o.lane = 1",
    "rows of a lane gone": "delete from holdkit.baseline where lane = 2",
    "a lane is archived further": "update holdkit.archived set through = through + 1 where lane = 3",
    "a lane is archived less far": "update holdkit.archived set through = through - 1 where lane = 3",
    "a lane was never archived": "delete from holdkit.archived where lane = 3",
    "the digest of another lane": "update holdkit.archived a set digest = o.digest from holdkit.archived o where a.lane = 0 and o.lane = 1",
}


@pytest.mark.parametrize("sql", ARCHIVED.values(), ids=ARCHIVED.keys())
def test_what_was_done_to_the_baseline_is_named(attacked: Attacked, sql: str) -> None:
    for table in ("baseline", "archived"):
        attacked.change(f"create table public.kept_{table} as table holdkit.{table}")
    try:
        assert attacked.change(sql) > 0
        assert attacked.found()
    finally:
        for table in ("baseline", "archived"):
            attacked.change(f"delete from holdkit.{table}")
            attacked.change(f"insert into holdkit.{table} table public.kept_{table}")
            attacked.change(f"drop table public.kept_{table}")
    assert attacked.found() == []


def test_the_anchor_has_every_lane(attacked: Attacked) -> None:
    assert {line.lane for _, line in read_anchor(attacked.anchor)} == set(range(LANES))
    report = attacked.hk.admin.verify(archive=attacked.to)
    assert sorted(report.sealed) == list(range(LANES))
    assert {one.lane for one in attacked.hk._executor.engine.read(FindArchived())} == set(range(LANES))


def test_nothing_is_erased_over_a_changed_directory(attacked: Attacked) -> None:
    kept = attacked.change("update holdkit.journal set seq = seq")
    for attack in (missing_first, missing_last, swapped_files):
        attack(attacked, *attacked.files(1))
        with pytest.raises(holdkit.errors.EngineError, match=r"lane-0001|lane 1"):
            attacked.hk.admin.erase("entity", PERSON, reason="asked", archive=attacked.to)
        attacked.put_back()
    assert attacked.change("update holdkit.journal set seq = seq") == kept
    assert attacked.hk.admin.verify(archive=attacked.to).differences == ()


def test_older_files_put_back_after_an_erasure_are_named_and_nothing_is_erased_over_them(
    postgres_server: ServerAddress, tmp_path: Path
) -> None:
    with world(postgres_server, tmp_path) as one:
        erase = partial(one.hk.admin.erase, reason="asked", archive=one.to)
        for by in ("entity", "actor"):
            erase(by, PERSON)
        assert one.found() == []
        after = {path.name: path.read_bytes() for path in one.to.iterdir()}
        for lane in range(LANES):
            older = one.files(lane)[0].path
            older.write_bytes((one.whole / older.name).read_bytes())
            assert any(PERSON in words for words in one.found()), f"lane {lane}"
            with pytest.raises(holdkit.errors.EngineError, match="Put back the files of that time"):
                erase("entity", PERSON)
            older.write_bytes(after[older.name])
        assert one.found() == []
        assert not erase("entity", PERSON).found
