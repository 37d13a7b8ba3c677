"""An older backup restored beside archive files that know more: what they have is never taken for what the database has, nothing that the
database has is lost, and a command that would go on over such a file names it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import holdkit
from holdkit.engines.archive_files import ArchiveDirectory, ArchiveFile
from holdkit.kernel.seals import Sealing
from holdkit.testing import FakeClock
from tests.support.command_line import run

DAY = 86_400


def entries_of(hk: holdkit.Kernel) -> list[holdkit.JournalEntry]:
    return list(hk.journal.follow(wait=False))


class Restored:
    """A database that was archived, backed up, used, archived again, and restored from that backup; then used anew.

    The backup knows the entries up to `known`. The second file has some of these, and others that the restore has lost."""

    def __init__(self, folder: Path, holds: int) -> None:
        """`holds` are placed and released before the backup, behind the first archive run."""
        self.clock = FakeClock(1_700_000_000_000_000)
        self.url, self.to, self.folder = f"sqlite:///{folder}/holds.db", folder / "archive", folder
        self.anchor = self.old_anchor = folder / "anchor"
        with self.opened() as hk:
            hk.create_pool("show", 1_000)
            self.use(hk, 2, "first")
            self.archive(hk)
            self.use(hk, holds, "second")
            self.known = entries_of(hk)[-1].raw.position.seq
            run("admin", "backup", "--url", self.url, folder / "copy")
            self.use(hk, 3, "lost")
            self.lost = [entry.cursor for entry in entries_of(hk)[-6:]]
            self.archive(hk)
        assert [(file.first <= self.known < file.last) for file in self.files()] == [False, True]
        run("admin", "restore", "--url", self.url, folder / "copy", "--replace")
        self.anchor = folder / "new anchor"

    def opened(self) -> holdkit.Kernel:
        return holdkit.connect(self.url, clock=self.clock)

    def use(self, hk: holdkit.Kernel, holds: int, entity: str) -> None:
        for _ in range(holds):
            hk.release(hk.hold("show", 1, ttl=600, entity=entity))

    def seal(self, hk: holdkit.Kernel, anchor: Path | None = None) -> None:
        Sealing(anchor=anchor or self.anchor).sealer(hk._executor.engine).step(all_now=True)

    def archive(self, hk: holdkit.Kernel, to: Path | None = None) -> int:
        """Seal and archive everything but the last entry."""
        self.seal(hk)
        self.clock.advance(2 * DAY)
        hk.admin.resize_pool("show", hk.pool("show").total + 1)
        return hk.admin.archive(before="1d", to=to or self.to).entries

    def files(self) -> list[ArchiveFile]:
        return ArchiveDirectory(self.to).files()

    def entities(self, hk: holdkit.Kernel, **more: Path) -> list[str]:
        """Whom the pool's history names, in order, each once."""
        named = [entry.raw.entry.hold.entity for entry in hk.journal.history("show", **more) if entry.raw.entry.hold]  # type: ignore[arg-type]
        return list(dict.fromkeys(str(one) for one in named))


@pytest.fixture(params=[5, 80], ids=["few", "more than one step"])
def restored(request: pytest.FixtureRequest, tmp_path: Path) -> Restored:
    return Restored(tmp_path, request.param)


def test_nothing_leaves_for_files_of_another_history(restored: Restored) -> None:
    with restored.opened() as hk:
        restored.use(hk, 3, "anew")
        kept = [entry.position for entry in entries_of(hk)]
        with pytest.raises(holdkit.errors.EngineError, match="archive to another directory") as refused:
            restored.archive(hk)
        assert restored.files()[1].path.name in str(refused.value)
        assert [entry.position for entry in entries_of(hk)][: len(kept)] == kept
        assert hk.admin.verify(archive=restored.to).differences == ()

        elsewhere = restored.folder / "elsewhere"
        assert restored.archive(hk, elsewhere) > 0
        (first, second), (anew,) = restored.files(), ArchiveDirectory(elsewhere).files()
        assert anew.first == first.last + 1
        with pytest.raises(holdkit.errors.EngineError, match="no file with entry 1 of lane 0"):
            hk.admin.verify(archive=elsewhere)
        second.path.unlink()
        anew.path.rename(restored.to / anew.path.name)
        assert hk.admin.verify(archive=restored.to).differences == ()
        assert restored.entities(hk, archive=restored.to) == ["first", "second", "anew"]


def test_the_same_directory_is_used_on_without_the_file(restored: Restored) -> None:
    """As docs/backups.md says: a copy of the directory is what is left of the lost entries."""
    copy = restored.folder / "as it was"
    shutil.copytree(restored.to, copy)
    restored.files()[1].path.unlink()
    with restored.opened() as hk:
        restored.use(hk, 3, "anew")
        assert restored.archive(hk) > 0
        assert hk.admin.verify(archive=restored.to).differences == ()
        assert restored.entities(hk, archive=restored.to) == ["first", "second", "anew"]
        assert hk.admin.erase("entity", "second", reason="asked", archive=restored.to).holds > 0
    lost = [
        entry.raw.entry.hold.entity for entry in holdkit.journal.JournalArchive(copy).entries() if entry.raw.entry.hold
    ]
    assert list(dict.fromkeys(lost)) == ["first", "second", "lost"]


def test_what_the_restore_has_lost_is_no_part_of_a_history(restored: Restored) -> None:
    with restored.opened() as hk:
        restored.use(hk, 6, "anew")
        assert restored.entities(hk, archive=restored.to) == ["first", "second", "anew"]
    lost = [
        entry.raw.entry.hold.entity
        for entry in holdkit.journal.JournalArchive(restored.to).entries()
        if entry.raw.entry.hold
    ]
    assert lost[-1] == "lost", "the files still have it, for whoever reads them by themselves"


def test_an_export_has_what_the_database_has(restored: Restored) -> None:
    with restored.opened() as hk:
        restored.use(hk, 6, "anew")
        whole = restored.entities(hk)
    run("admin", "export", "--url", restored.url, "--archive", restored.to, restored.folder / "whole.jsonl")
    run("admin", "import", "--url", f"sqlite:///{restored.folder}/other.db", restored.folder / "whole.jsonl")
    with holdkit.connect(f"sqlite:///{restored.folder}/other.db", clock=restored.clock) as other:
        assert restored.entities(other) == ["first", "second", "anew"]
        assert whole == ["second", "anew"]


def test_a_reader_of_what_was_lost_is_told(restored: Restored) -> None:
    with restored.opened() as hk:
        for cursor in restored.lost:
            with pytest.raises(holdkit.errors.CursorLost):
                hk.journal.list(after=cursor)
        restored.use(hk, 6, "anew")  # the same numbers, other entries
        for cursor in restored.lost:
            with pytest.raises(holdkit.errors.CursorLost):
                hk.journal.list(after=cursor)
        behind = [entry.cursor for entry in holdkit.journal.JournalArchive(restored.to).entries()][-1]
        with pytest.raises(holdkit.errors.CursorLost):
            hk.journal.list(after=behind)


def test_an_erasure_begins_when_the_file_is_moved_away(restored: Restored) -> None:
    with restored.opened() as hk:
        second = restored.files()[1].path
        with pytest.raises(holdkit.errors.EngineError, match="Move it away") as refused:
            hk.admin.erase("entity", "second", reason="asked", archive=restored.to)
        assert second.name in str(refused.value)
        second.rename(restored.folder / second.name)
        assert hk.admin.erase("entity", "second", reason="asked", archive=restored.to).holds > 0
        assert hk.admin.verify(archive=restored.to).differences == ()


def test_seals_go_on_and_the_old_anchor_names_what_is_missing(restored: Restored) -> None:
    lines = restored.old_anchor.read_text().splitlines()
    with restored.opened() as hk:
        restored.use(hk, 1, "anew")
        said = run(
            "admin",
            "verify",
            restored.url,
            "--seals",
            "--archive",
            restored.to,
            "--anchor",
            restored.old_anchor,
            code=6,
        ).out
        assert "the run was removed" in said
        with pytest.raises(holdkit.errors.EngineError, match="begin a new anchor"):
            restored.seal(hk, restored.old_anchor)
        assert restored.old_anchor.read_text().splitlines() == lines
        restored.seal(hk)
    run("admin", "verify", restored.url, "--seals", "--archive", restored.to, "--anchor", restored.anchor)


def test_a_backup_of_before_the_first_archive(tmp_path: Path) -> None:
    """The database does not know that there is an archive."""
    restored = Restored(tmp_path, 5)
    with restored.opened() as hk:
        assert hk.admin.verify().differences == ()
    clock, url = restored.clock, f"sqlite:///{tmp_path}/early.db"
    with holdkit.connect(url, clock=clock) as hk:
        hk.create_pool("show", 1_000)
        restored.use(hk, 2, "first")
        run("admin", "backup", "--url", url, tmp_path / "early copy")
        restored.use(hk, 2, "lost")
        restored.archive(hk, tmp_path / "early archive")
    run("admin", "restore", "--url", url, tmp_path / "early copy", "--replace")
    with holdkit.connect(url, clock=clock) as hk:
        with pytest.raises(holdkit.errors.EngineError, match="another entry 6 of lane 0 than the journal"):
            hk.admin.archive(before="1d", to=tmp_path / "early archive")
        restored.use(hk, 2, "anew")
        with pytest.raises(holdkit.errors.EngineError, match="another entry 6 of lane 0 than the journal"):
            hk.admin.archive(before="1d", to=tmp_path / "early archive")
        assert restored.entities(hk, archive=tmp_path / "early archive") == ["first", "anew"]
        assert hk.admin.verify(archive=tmp_path / "early archive").differences == ()
