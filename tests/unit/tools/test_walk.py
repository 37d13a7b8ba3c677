from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.conftest import Migrated
from tools import walk

SOURCES = {
    "first.py": "def start(other):\n    return other()\n",
    "second.py": "def steps():\n    yield one()\n    yield one()\n\n\ndef one():\n    return 1\n",
}


def load(folder: Path) -> dict[str, object]:
    """Both files as one namespace, each function compiled with the name of its file."""
    names: dict[str, object] = {}
    for name, text in SOURCES.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        exec(compile(text, str(path), "exec"), names)
    return names


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    monkeypatch.setattr(walk, "SOURCE", tmp_path)
    monkeypatch.setattr(walk, "ROOT", tmp_path)
    return load(tmp_path)


def test_a_generator_that_resumes_is_one_call(source: dict[str, object]) -> None:
    with walk.Recorder().installed() as recorder:
        eval("list(start(steps))", source)
        with recorder.recording():
            eval("list(start(steps))", source)
        eval("one()", source)
    assert recorder.walk() == walk.Walk(files=2, changes=1, calls=4, stops=("first.py start", "second.py steps"))


def test_threads_take_part(source: dict[str, object]) -> None:
    with walk.Recorder().installed() as recorder, recorder.recording():
        thread = threading.Thread(target=lambda: eval("start(one)", source))
        thread.start()
        thread.join()
        eval("start(one)", source)
    assert recorder.walk().stops == ("first.py start", "second.py one", "first.py start", "second.py one")


def test_size_leaves_out_what_is_generated(source: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "_sync").mkdir()
    (tmp_path / "_sync" / "copy.py").write_text("\n" * 100, encoding="utf-8")
    assert walk.size(tmp_path) == walk.Size(
        files=2,
        lines=9,
        median=4.5,
        per_thousand=222.22,
        longest_file="second.py",
        longest_file_lines=7,
        longest_function="second.py steps",
        longest_function_lines=3,
    )


def test_a_hold_on_sqlite_begins_with_its_verb_and_reaches_the_core(tmp_path: Path) -> None:
    counted = walk.walk_on_sqlite(tmp_path)
    assert counted.stops[0] == "kernel/_sync/verbs.py hold"
    assert any(stop.startswith("core/ladders/plain.py") for stop in counted.stops)
    assert len({stop.split()[0] for stop in counted.stops}) == counted.files
    assert len(counted.stops) == counted.changes + 1


def test_a_hold_on_postgres_is_followed_as_a_task(migrated: Migrated) -> None:
    counted = asyncio.run(walk.walk_on_postgres(migrated()))
    assert counted.stops[0] == "kernel/_async/verbs.py hold"
    assert any(stop.startswith("core/guards.py") for stop in counted.stops)


def test_a_hold_over_http_is_followed_through_the_application(tmp_path: Path) -> None:
    counted = asyncio.run(walk.walk_over_http(tmp_path))
    assert counted.stops[0] == "server/application.py __call__"
    files = {stop.split()[0] for stop in counted.stops}
    assert {"server/dispatch.py", "kernel/_async/verbs.py", "core/decide.py", "engines/sqlite/writing.py"} <= files
    assert len(files) == counted.files


def test_the_commonest_counts() -> None:
    walks = [walk.Walk(files=3, changes=changes, calls=9, stops=()) for changes in (90, 7, 5, 7, 91)]
    assert walk.commonest(walks).changes == 7
    assert walk.commonest(walks[1:3]).changes == 5
