"""Other processes' commits on SQLite wake whoever listens: by the system's report, or by looking at the side file."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import holdkit
from holdkit.engines.sqlite import file_watch
from holdkit.engines.sqlite.engine import SqliteEngine
from tests.support.threads import PATIENCE


@pytest.mark.parametrize("reported", [True, False])
def test_a_commit_of_another_connection_wakes(tmp_path: Path, reported: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not reported:
        monkeypatch.setattr(file_watch, "_inotify", lambda _file: None)
    path = tmp_path / "holds.db"
    with holdkit.connect(f"sqlite:///{path}") as other:
        engine = SqliteEngine(path)
        woken = threading.Event()
        engine.listen(woken.set)
        engine.listen(woken.set)
        other.create_pool("gpu", 1)
        assert woken.wait(PATIENCE)
        engine.close()


def test_where_no_watch_is_to_be_had_the_file_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "other")
    assert file_watch._inotify(tmp_path) is None
    monkeypatch.undo()
    assert file_watch._inotify(tmp_path / "missing") is None
