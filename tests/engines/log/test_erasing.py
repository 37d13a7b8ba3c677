"""Erasure in a log: whoever looks at its files meanwhile is told; what an interrupted run leaves is carried out by the next opening."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import holdkit
from holdkit.engines.log import LogEngine
from holdkit.engines.log.engine import SNAPSHOT_ENTRIES
from holdkit.engines.log.erasure_plan import FILE
from holdkit.engines.log.inspection import copy, entries_of, look
from holdkit.errors import EngineError
from tests.engines.test_archive import short_segments


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of several segments, with a snapshot, in which user:7 is everywhere."""
    short_segments(monkeypatch)
    with holdkit.connect(f"log:///{tmp_path}/log") as hk:
        hk.create_pool("show", 1_000)
        for number in range(30):
            hk.hold("show", 1, ttl=600, entity="user:7" if number % 3 else "user:9", op=f"op-{number}")
        engine = hk.executor.engine
        assert isinstance(engine, LogEngine)
        engine.snapshot()
    assert SNAPSHOT_ENTRIES > 30
    return tmp_path / "log"


def interrupted(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An erasure that ends in the middle of its segments, as if it were killed there: the files are put back as they were then."""
    steps = 0

    def progress(_done: int, _total: int) -> None:
        nonlocal steps
        if (path / FILE).exists():
            steps += 1
            if steps == 3:
                shutil.copytree(path, path.with_name("then"))
                raise KeyboardInterrupt

    with monkeypatch.context(), holdkit.connect(f"log:///{path}") as hk, pytest.raises(KeyboardInterrupt):
        hk.erase("entity", "user:7", reason="request 1", progress=progress)
    shutil.rmtree(path)
    path.with_name("then").rename(path)


def test_whoever_looks_at_the_files_meanwhile_is_told(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(path, monkeypatch)
    assert "an erasure rewrites" in str(look(path).damage)
    for attempt in (lambda: list(entries_of(path)), lambda: copy(str(path), tmp_path / "copy", lambda *_: None)):
        with pytest.raises(EngineError, match="open it once"):
            attempt()


def test_opening_carries_out_the_rest_before_anything_is_replayed(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(path, monkeypatch)
    assert any(b"user:7" in file.read_bytes() for file in path.glob("*.log")), "some segments were not rewritten yet"
    assert b"user:7" not in (path / FILE).read_bytes(), "the plan does not tell what is erased"
    with holdkit.connect(f"log:///{path}") as hk:
        assert [file.name for file in path.iterdir() if b"user:7" in file.read_bytes()] == []
        assert hk.verify().ok
        assert json.loads((path / FILE).read_text().splitlines()[0])["plan"] is None
        assert look(path).damage is None
        erased = hk.erase("entity", "user:7", reason="request 1")
        assert (erased.resumed, erased.found) == (True, False)
        assert not (path / FILE).exists()
        assert len(hk.holds(entity=erased.stub)) == 20
        assert hk.holds(entity="user:9")


def test_a_plan_that_was_changed_by_hand_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted(path, monkeypatch)
    (path / FILE).write_bytes((path / FILE).read_bytes()[:-9])
    with pytest.raises(EngineError, match=FILE):
        holdkit.connect(f"log:///{path}")


def test_a_full_disk_ends_it_and_the_same_call_does_the_rest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with holdkit.connect(f"log:///{path}") as hk:
        engine = hk.executor.engine
        assert isinstance(engine, LogEngine)
        rename = engine._disk.rename
        left = 4

        def fails(old: str, new: str) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(28, "No space left on device")
            rename(old, new)

        with monkeypatch.context() as patch:
            patch.setattr(engine._disk, "rename", fails)
            with pytest.raises(EngineError, match="give the same command again"):
                hk.erase("entity", "user:7", reason="request 1")
        assert engine.erasures.plan is not None
        assert hk.verify().ok
        assert not hk.holds(entity="user:7", limit=1), "it has happened"
        hk.hold("show", 1, ttl=600, entity="user:8")
        assert hk.erase("entity", "user:7", reason="request 1").resumed
        assert hk.verify().ok
        before = len(hk.holds(limit=1_000))
    assert [file.name for file in path.iterdir() if b"user:7" in file.read_bytes()] == []
    with holdkit.connect(f"log:///{path}") as hk:
        assert len(hk.holds(limit=1_000)) == before
        assert hk.verify().ok


def test_writers_and_followers_go_on_while_segments_are_rewritten(path: Path) -> None:
    with holdkit.connect(f"log:///{path}") as hk:
        entries = hk.follow(wait=False)
        seen = [next(entries).subject for _ in range(5)]
        placed: list[str] = []

        def progress(_done: int, _total: int) -> None:
            placed.append(hk.hold("show", 1, ttl=600, entity="user:8").id)
            assert hk.verify().ok

        hk.erase("entity", "user:7", reason="request 1", progress=progress)
        assert len(placed) > 5
        seen += [entry.subject for entry in entries]
        assert len(seen) >= 31
        assert {hold.id for hold in hk.holds(entity="user:8", limit=1_000)} == {*placed}
    with holdkit.connect(f"log:///{path}") as hk:
        assert {hold.id for hold in hk.holds(entity="user:8", limit=1_000)} == {*placed}
        assert hk.verify().ok


def test_a_log_gets_its_secret_when_it_is_first_asked_for_and_keeps_it(path: Path) -> None:
    with holdkit.connect(f"log:///{path}") as hk:
        engine = hk.executor.engine
        assert isinstance(engine, LogEngine)
        assert "secret" not in engine._log.settings
        secret = engine.secret
        assert len(secret) == 32
    with holdkit.connect(f"log:///{path}") as hk:
        erasing = hk.executor.engine.capabilities.erasure
        assert erasing is not None
        assert erasing.secret == secret
        assert hk.erase("entity", "user:7", reason="request 1").found
        assert erasing.secret == secret
