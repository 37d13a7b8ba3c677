"""Generations of the journal: what a place notices that was kept beside the journal and cut back with it, and what it cannot."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdkit import InvalidRequest
from holdkit.engines.memory import MemoryEngine
from holdkit.errors import CursorLost, EngineError
from holdkit.kernel import export, follower_state, import_
from holdkit.kernel._async import following as async_following
from holdkit.kernel._sync import following as sync_following
from holdkit.kernel.backup import back_up, restore
from holdkit.kernel.import_ import import_journal
from holdkit.kernel.opening import open_engine
from holdkit.kernel.pages import generation_of
from tests.support.modes import Async, Sync, close_quietly
from tests.support.watched_engine import WatchedEngine


def names(entries: Any) -> list[str]:
    return [entry.subject for entry in entries]


def make(hk: Any, *pools: str) -> None:
    for pool in pools:
        hk.create_pool(pool, 1)


class Files:
    """A kernel on a file that can be copied, and put back by hand or by `holdkit admin restore`."""

    def __init__(self, mode: Sync | Async, folder: Path) -> None:
        self._mode, self._path = mode, folder / "holds"
        self.url = f"sqlite:///{self._path}"
        self._copy = folder / "copy"
        self._opened: list[Any] = []

    def open(self) -> Any:
        self._opened.append(self._mode.open(open_engine(self.url)))
        return self._opened[-1]

    def close(self) -> None:
        while self._opened:
            close_quietly(self._opened.pop())

    def copy(self) -> None:
        self.close()
        back_up(self.url, self._copy, lambda *_: None, verify=False)

    def put_back(self, how: str) -> None:
        self.close()
        if how == "restored":
            restore(self._copy, self.url, lambda *_: None, force=True, verify=False)
        else:
            shutil.copyfile(self._copy, self._path)


@pytest.fixture
def files(mode: Sync | Async, tmp_path: Path) -> Iterator[Files]:
    made = Files(mode, tmp_path)
    yield made
    made.close()


def cut_back(files: Files, how: str, **following: Any) -> Any:
    """A follower is shown five entries, of which three are gone when it begins again."""
    hk = files.open()
    make(hk, "a", "b")
    assert names(hk.journal.follow("mail", wait=False, **following)) == ["a", "b"]
    files.copy()
    hk = files.open()
    make(hk, "c", "d", "e")
    assert names(hk.journal.follow("mail", wait=False, **following)) == ["c", "d", "e"]
    files.put_back(how)
    return files.open()


@pytest.mark.parametrize(("how", "regrown"), [("restored", 0), ("copied", 2), ("copied", 9)])
def test_what_was_shown_and_is_gone_is_noticed_by_a_place_outside(
    files: Files, tmp_path: Path, how: str, regrown: int
) -> None:
    outside = tmp_path / "outside"
    hk = cut_back(files, how, remember=outside)
    make(hk, *(f"x{number}" for number in range(regrown)))
    for _ in range(2):  # it says so until somebody has done something about it
        with pytest.raises(CursorLost, match=f"'mail' was shown at least . entr.* remove {outside}") as lost:
            list(hk.journal.follow("mail", wait=False, remember=outside))
        assert lost.value.missing == max(1, 3 - regrown), "as far as the journal's end tells"
    outside.unlink()
    assert names(hk.journal.follow("mail", wait=False, remember=outside)) == [f"x{number}" for number in range(regrown)]


def test_without_an_outside_a_restore_is_told_once_and_a_copied_file_is_not(
    files: Files, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[tuple[str, str]] = []
    hk = cut_back(files, "restored")
    before = generation_of(hk.journal.cursor(back=10**6))
    make(hk, "x")
    with caplog.at_level(logging.WARNING, "holdkit"):
        for expected in (["x"], []):
            following = hk.journal.follow("mail", wait=False, on_generation=lambda *both: told.append(both))
            assert names(following) == expected
    assert [now for _, now in told] == [before]
    assert told[0][0] != told[0][1]
    assert ["follower 'mail'" in record.getMessage() for record in caplog.records] == [True]


def test_a_file_that_was_copied_back_cannot_be_told_from_inside(files: Files, caplog: pytest.LogCaptureFixture) -> None:
    """What the docs say about it: true until it is not."""
    hk = cut_back(files, "copied")
    make(hk, "x")
    with caplog.at_level(logging.WARNING, "holdkit"):
        assert names(hk.journal.follow("mail", wait=False)) == ["x"]
    assert caplog.records == []


def test_a_generation_that_changed_while_every_entry_is_there_is_fine(files: Files, tmp_path: Path) -> None:
    """As after a promotion of a synchronous standby: cursors and places go on, under the new generation."""
    told: list[Any] = []
    outside = tmp_path / "outside"
    hk = files.open()
    make(hk, "a", "b")
    assert names(hk.journal.follow("mail", wait=False, remember=outside)) == ["a", "b"]
    cursor, before = hk.journal.cursor(), hk.admin.stats().generation
    assert generation_of(cursor) == before
    files.copy()
    files.put_back("restored")
    hk = files.open()
    assert hk.admin.stats().generation != before
    make(hk, "c")
    (entry,) = hk.journal.list(after=cursor)
    assert (entry.subject, entry.raw.generation) == ("c", hk.admin.stats().generation)
    assert generation_of(entry.cursor) == hk.admin.stats().generation
    following = hk.journal.follow("mail", wait=False, remember=outside, on_generation=lambda *both: told.append(both))
    assert names(following) == ["c"]
    assert told == [], "what is outside proves that nothing is gone"
    assert generation_of(outside.read_text().strip()) == hk.admin.stats().generation


def test_a_process_remembers_by_itself_what_it_has_shown(hk: Any, engine: WatchedEngine) -> None:
    """The journal and the kept place are cut back under a kernel that goes on: as an asynchronous failover does."""
    make(hk, "a")
    assert names(hk.journal.follow("mail", wait=False)) == ["p", "a"]
    other = MemoryEngine(clock=engine.fake)
    engine.inner = other
    make(hk, "x")
    with pytest.raises(CursorLost, match=r"'mail' was shown at least 1 entry .* follow again") as lost:
        list(hk.journal.follow("mail", wait=False))
    assert lost.value.missing == 1
    assert names(hk.journal.follow("mail", wait=False)) == ["x"], "told once"


def test_what_is_shown_is_remembered_before_it_is_shown(
    hk: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (async_following, sync_following):
        monkeypatch.setattr(module, "PAGE", 2)
    make(hk, "a", "b", "c")
    outside = tmp_path / "outside"
    following = iter(hk.journal.follow("mail", wait=False, remember=outside))
    assert next(following).subject == "p"
    assert outside.read_text().strip() == hk.journal.list(limit=2)[-1].cursor
    following.close()  # dies in the middle of its page
    assert names(hk.journal.follow("mail", wait=False, remember=outside)) == ["p", "a", "b", "c"], (
        "outside says not where to go on"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["outside"], "nothing half written is left"


def test_a_place_that_was_put_back_on_purpose_is_obeyed(hk: Any, tmp_path: Path) -> None:
    """The journal is whole: then what is kept under the name counts, also if more was shown."""
    outside = tmp_path / "outside"
    make(hk, "a")
    first = hk.journal.list(limit=1)[0].cursor
    assert names(hk.journal.follow("mail", wait=False, remember=outside)) == ["p", "a"]
    hk.admin.records.put("x", "y", "1")
    from holdkit.core.commands import Group, PutRecord
    from holdkit.kernel.follower_state import cursor_body

    engine = hk._executor.engine
    engine.apply([Group((PutRecord(kind="~cursor", id="mail", body=cursor_body(first, "operator")),))])
    assert names(hk.journal.follow("mail", wait=False, remember=outside)) == ["a", "x/y"]


class Store:
    """An application's own."""

    def __init__(self, *, full: bool = False) -> None:
        self.saved: list[str] = []
        self._full = full

    def load(self) -> str | None:
        return self.saved[-1] if self.saved else None

    def save(self, cursor: str) -> None:
        if self._full:
            raise OSError("full")
        self.saved.append(cursor)


def test_an_application_may_remember_in_its_own_way(hk: Any, engine: WatchedEngine) -> None:
    store = Store()
    make(hk, "a")
    assert names(hk.journal.follow("mail", wait=False, remember=store)) == ["p", "a"]
    assert len(store.saved) == 2, "when it began, and before it was shown"
    engine.inner = MemoryEngine(clock=engine.fake)
    with pytest.raises(CursorLost, match="let the store forget"):
        list(hk.journal.follow("mail", wait=False, remember=store))


@pytest.mark.parametrize("broken", ["missing", "unwritable", "store"])
def test_what_cannot_be_remembered_is_not_shown(hk: Any, tmp_path: Path, broken: str) -> None:
    make(hk, "a")
    remember: Any = tmp_path / "nowhere" / "outside"
    expected: type[Exception] = EngineError
    if broken == "unwritable":
        remember = tmp_path  # a directory
    elif broken == "store":
        remember, expected = Store(full=True), OSError
    with pytest.raises(expected):
        next(iter(hk.journal.follow("mail", wait=False, remember=remember)))
    assert names(hk.journal.follow("mail", wait=False)) == ["p", "a"]


def test_what_follow_refuses(hk: Any, tmp_path: Path) -> None:
    for wrong, code in (
        ({"name": "mail", "remember": 7}, "remember_unusable"),
        ({"name": "mail", "remember": ""}, "remember_unusable"),
        ({"remember": tmp_path / "x"}, "name_required"),
        ({"name": "mail", "on_generation": "no"}, "callback_not_callable"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            next(iter(hk.journal.follow(wait=False, **wrong)))
        assert refused.value.code == code


def test_the_names_that_a_process_remembers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_state, "MAX_SHOWN", 2)
    shown = follower_state.Shown()
    for name in ("a", "b", "a", "c"):
        shown.save(("", name), name)
    assert [shown.load(("", name)) for name in "abc"] == ["a", None, "c"]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_an_import_begins_a_generation(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = open_engine(f"sqlite:///{tmp_path}/source")
    hk = Sync().open(source)
    make(hk, "a", "b")
    cursor, lines = hk.journal.cursor(), list(export.export(source))
    assert import_.Import(iter(lines)).header.generation == hk.admin.stats().generation
    url = request.getfixturevalue("migrated")(lanes=1) if kind == "postgres" else f"sqlite:///{tmp_path}/target"
    target = Sync().open(open_engine(url))
    empty = target.admin.stats().generation
    target.close()
    import_journal(url, import_.Import(iter(lines)))
    target = Sync().open(open_engine(url))
    assert len({empty, hk.admin.stats().generation, target.admin.stats().generation}) == 3
    assert names(target.journal.list(limit=1)) == ["a"]
    if kind != "postgres":
        assert target.journal.list(after=cursor) == [], "every entry is there: the place goes on"
    target.close()
    hk.close()


def test_a_kernel_that_is_opened_again_has_the_same_generation(files: Files) -> None:
    first = files.open().admin.stats().generation
    files.close()
    assert files.open().admin.stats().generation == first
    assert len(first) >= 16
