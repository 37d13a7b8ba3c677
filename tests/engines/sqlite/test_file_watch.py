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
        monkeypatch.setattr(file_watch._Inotify, "open", lambda: None)
    path = tmp_path / "holds.db"
    with holdkit.connect(f"sqlite:///{path}") as other:
        engine = SqliteEngine(path)
        woken = threading.Event()
        engine.listen(woken.set)
        engine.listen(woken.set)
        other.create_pool("gpu", 1)
        assert woken.wait(PATIENCE)
        engine.close()


@pytest.mark.parametrize("reported", [True, False])
def test_a_channel_wakes_only_those_who_listen_on_it(
    tmp_path: Path, reported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not reported:
        monkeypatch.setattr(file_watch._Inotify, "open", lambda: None)
    path = str(tmp_path / "holds.db")
    watch = file_watch.FileWatch()
    channels, others = file_watch.FileChannels(path, watch), file_watch.FileChannels(path, file_watch.FileWatch())
    heard: list[str] = []
    woken = threading.Semaphore(0)

    def note(channel: str) -> None:
        heard.append(channel)
        woken.release()

    others.notify(["0a", "0b"])  # nobody has ever listened
    for channel in ("0a", "0b", "0b"):
        channels.listen_on(channel, lambda channel=channel: note(channel))  # type: ignore[misc]
    assert heard == ["0a", "0b"], "once when we begin"
    for channel in ("0b", "0a", "0b", "0b"):
        before = heard.count(channel)
        others.notify([channel, "0c"])
        while heard.count(channel) == before:
            assert woken.acquire(timeout=PATIENCE)
    watch.close()
    assert {*heard} == {"0a", "0b"}
    assert heard.count("0a") <= 3, "one notification is reported twice at most"


def test_where_no_watch_is_to_be_had_the_file_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "other")
    assert file_watch._Inotify.open() is None
    monkeypatch.undo()
    reports = file_watch._Inotify.open()
    assert reports is not None
    assert reports.add(tmp_path / "missing") is None
    reports.close()
