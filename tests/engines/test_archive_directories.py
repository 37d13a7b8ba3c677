"""Where an archive is: a directory that is moved, emptied or changed between two runs, and what a run leaves that was killed before."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import holdkit
from holdkit.core.archived import FindArchived, FindKnownFiles
from holdkit.core.lanes import lane_of_pool
from holdkit.core.reading import FindEnds
from holdkit.engines.archive_files import ArchiveDirectory, read_archive_file
from holdkit.engines.postgres.archiving import PostgresArchiver
from holdkit.engines.sqlite import SqliteEngine
from holdkit.engines.sqlite.archiving import SqliteArchiver
from holdkit.errors import EngineError
from holdkit.kernel import archive
from holdkit.kernel.archive import archived_entries
from holdkit.kernel.backup import back_up, restore
from holdkit.kernel.export import export
from holdkit.kernel.seal_check import verify_seals
from holdkit.kernel.seals import Sealer
from holdkit.testing import FakeClock

DAY = 86_400


class Life:
    """A kernel that writes the same entries in each lane, day by day."""

    def __init__(self, url: str, to: Path) -> None:
        self.clock, self.to = FakeClock(1_700_000_000_000_000), to
        self.reopen(url)
        names = [f"p{number}" for number in range(100)]
        lanes = range(self.engine.lanes)
        self.pools = [
            next(name for name in names if lane_of_pool(("", name), self.engine.lanes) == lane) for lane in lanes
        ]
        for pool in self.pools:
            self.hk.create_pool(pool, 1_000)

    def reopen(self, url: str) -> None:
        self.hk = holdkit.connect(url, clock=self.clock)
        self.engine = self.hk._executor.engine
        self.sealer = Sealer(self.engine)

    def days(self, count: int = 3) -> None:
        for _ in range(count):
            for pool in self.pools:
                for _ in range(2):
                    self.hk.release(self.hk.hold(pool, 1, ttl=60, actor="user:1"))
            self.clock.advance(DAY)

    def seal(self) -> int:
        return sum(iter(lambda: self.sealer.step(all_now=True), 0))

    def archive(self, to: Path | None = None) -> int:
        return self.hk.admin.archive(before="1d", to=to or self.to).entries

    def through(self) -> list[int]:
        return [one.through for one in self.engine.read(FindArchived())]

    def assert_whole(self, at: Path | None = None) -> None:
        at = at or self.to
        assert self.hk.admin.verify().differences == ()
        assert self.hk.admin.verify(archive=at).differences == ()
        assert list(verify_seals(self.engine, archive=at)) == []
        for lane in range(self.engine.lanes):
            files = ArchiveDirectory(at).files(lane)
            assert [one.last + 1 for one, _ in pairwise(files)] == [two.first for _, two in pairwise(files)]


@pytest.fixture(params=["sqlite", "postgres"])
def life(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Life]:
    url = f"sqlite:///{tmp_path}/holds.db"
    if request.param == "postgres":
        url = request.getfixturevalue("migrated")(lanes=2)
    made = Life(url, tmp_path / "archive")
    yield made
    made.hk.close()


def test_a_directory_may_be_moved(life: Life, tmp_path: Path) -> None:
    moved = tmp_path / "moved"
    for turn in range(2):
        life.days()
        assert life.archive() > 0, turn
    life.to.rename(moved)
    life.days()
    assert life.archive(moved) > 0
    life.assert_whole(moved)
    oldest = ArchiveDirectory(moved).files(0)[0]
    oldest.path.rename(tmp_path / "elsewhere")
    life.days()
    with pytest.raises(EngineError, match=f"{oldest.path}: file is missing"):
        life.archive(moved)


def test_files_may_go_to_a_new_directory_and_be_copied_into_one(life: Life, tmp_path: Path) -> None:
    life.days()
    assert life.archive() > 0
    before = life.through()
    other, both = tmp_path / "other", tmp_path / "both"
    life.days()
    assert life.archive(other) > 0
    assert life.through() > before
    shutil.copytree(life.to, both)
    shutil.copytree(other, both, dirs_exist_ok=True)
    life.assert_whole(both)
    assert list(export(life.engine, archive=archived_entries(life.engine, both)))
    for part in (life.to, other):
        with pytest.raises(EngineError, match="has no file with entry"):
            life.hk.admin.verify(archive=part)
    life.days()
    assert life.archive(other) > 0, "the files of the first directory are not looked for there"


def test_a_directory_that_was_emptied_is_no_new_one(life: Life) -> None:
    """Such as a mount point whose disk is not there."""
    life.days()
    assert life.archive() > 0
    shutil.rmtree(life.to)
    life.days()
    before = life.through()
    with pytest.raises(EngineError, match=r"lane-0000-000000000001-\d+.jsonl.gz: file is missing"):
        life.archive()
    assert life.through() == before


def killed(life: Life, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """A run that ends after so many transactions of its first lane."""
    archiver: Any = SqliteArchiver if isinstance(life.engine, SqliteEngine) else PostgresArchiver
    whole, left = archiver.drop, [after]

    def drop(*arguments: Any) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return whole(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(archiver, "drop", drop)
        patch.setattr(archiver, "step", 4)
        with pytest.raises(KeyboardInterrupt):
            life.archive()


def test_a_file_of_which_nothing_has_left_is_written_anew(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its entries may have been sealed since: a file has the seals of its runs."""
    life.days()
    killed(life, monkeypatch, 0)
    (left,) = ArchiveDirectory(life.to).files()
    assert life.through() == []
    assert life.seal() > 0, "a chain begins with the first entry"
    life.days(1)
    assert life.seal() > 0
    life.days(1)
    assert life.archive() > 0
    assert left not in ArchiveDirectory(life.to).files()
    life.assert_whole()
    lines = [type(line).__name__ for line in read_archive_file(ArchiveDirectory(life.to).files(0)[0])]
    assert lines[-1] == "ArchivedSeal"


def test_no_chain_begins_while_a_file_is_half_way_out(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of its entries leaves without seals."""
    life.days()
    killed(life, monkeypatch, 1)
    (left,) = ArchiveDirectory(life.to).files()
    assert life.through() == [4]
    assert left.last > 4
    sealed = life.seal()
    assert sealed == len(life.pools) - 1, "the other lane has its chain"
    life.assert_whole()
    life.days(1)
    assert life.archive() > 0
    assert left in ArchiveDirectory(life.to).files()
    assert life.seal() >= len(life.pools) - 1
    life.days(1)
    life.archive()
    life.assert_whole()


def test_a_sealed_run_that_is_half_way_out_is_whole(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.days()
    assert life.seal() > 0
    life.days(1)
    killed(life, monkeypatch, 1)
    assert life.through() == [4]
    life.assert_whole()
    assert list(verify_seals(life.engine)) == []
    assert life.archive() > 0
    life.assert_whole()


def test_a_damaged_file_that_is_half_way_out_is_refused(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    life.days()
    killed(life, monkeypatch, 1)
    (left,) = ArchiveDirectory(life.to).files()
    known = life.engine.read(FindKnownFiles(0))
    assert list(known) == [1]
    data = left.path.read_bytes()
    left.path.write_bytes(data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :])
    with pytest.raises(EngineError, match=str(left.path)):
        life.archive()
    assert life.through() == [4]
    left.path.write_bytes(data)
    assert life.archive() > 0
    life.assert_whole()


class Restored(NamedTuple):
    """An SQLite file that was restored to before its last archive runs, and what these have left in the directory."""

    life: Life
    files: list[Path]


@pytest.fixture
def restored(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Restored]:
    """Parametrized by how many entries the backup does not have that were written before the archive runs."""
    url = f"sqlite:///{tmp_path}/holds.db"
    life = Life(url, tmp_path / "archive")
    life.days()
    assert life.archive() > 0
    before = ArchiveDirectory(life.to).files()
    for _ in range(2):
        life.days()
    life.hk.close()
    back_up(url, tmp_path / "copy", lambda *_: None)
    life.reopen(url)
    for number in range(request.param):
        life.hk.admin.resize_pool(life.pools[0], 900 + number)
    life.clock.advance(2 * DAY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "MAX_ENTRIES", 10)
        assert life.archive() > 20
    files = [file.path for file in ArchiveDirectory(life.to).files() if file not in before]
    assert len(files) > 2
    life.hk.close()
    restore(tmp_path / "copy", url, lambda *_: None, force=True)
    life.reopen(url)
    yield Restored(life, files)
    life.hk.close()


@pytest.mark.parametrize("restored", [1], indirect=True)
def test_after_a_restore_files_with_the_same_entries_are_used_and_the_newest_entry_stays(restored: Restored) -> None:
    """The last of them has the entry that is the newest now, from which the next number follows."""
    life, files = restored
    (head,) = (end.seq for end in life.engine.read(FindEnds()))
    kept = [file.read_bytes() for file in files[:-1]]
    assert life.archive() > 20
    assert life.through() == [head - 1]
    assert [file.read_bytes() for file in files[:-1]] == kept
    assert not files[-1].exists(), "it is written anew, without the newest"
    life.assert_whole()
    life.days(1)
    assert [end.seq for end in life.engine.read(FindEnds())] == [head + 4]
    life.assert_whole()


@pytest.mark.parametrize("restored", [15], indirect=True)
def test_after_a_restore_files_of_another_history_are_refused(restored: Restored) -> None:
    """Nothing is removed: some of them begin with the same entries."""
    life, files = restored
    kept, before = [file.read_bytes() for file in files], life.through()
    with pytest.raises(EngineError, match=r"has another entry .* than the journal: .* archive to another directory"):
        life.archive()
    assert ([file.read_bytes() for file in files], life.through()) == (kept, before)
    assert life.hk.admin.verify().differences == ()
    assert life.archive(life.to.parent / "another") > 0


def test_what_may_not_leave_any_more_stays_although_a_file_has_it(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run that was killed had let more of them go."""
    life.days()
    killed(life, monkeypatch, 1)
    assert life.through() == [4]
    assert life.hk.admin.archive(before="60h", to=life.to).entries > 0
    (first, *_) = life.through()
    (left, *_) = ArchiveDirectory(life.to).files(0)
    assert 4 <= first < left.last
    life.assert_whole()
    assert life.archive() > 0
    life.assert_whole()
