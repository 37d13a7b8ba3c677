"""One process owns a log: locks, forks, kills, and what a real disk has afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import holdkit
from holdkit.engines.log import open_engine
from holdkit.errors import EngineError
from tests.engines.log.directories import RealDirectory, live, open_log, state

WRITER = """
import sys, holdkit
hk = holdkit.connect(sys.argv[1])
if hk.pools() == []:
    hk.create_pool("p", 10**9)
print("open", flush=True)
for line in sys.stdin:
    hold = hk.hold("p", 1, ttl=600, op=line.strip())
    print(hold.id, hold.replayed, flush=True)
"""


def start(url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )  # fmt: skip


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def ask(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()
    return said(process)


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    url = f"log:///{tmp_path}/log"
    first = start(url)
    assert said(first) == "open"
    with pytest.raises(EngineError, match="open in another process: a log has one writer at a time"):
        holdkit.connect(url)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    holdkit.connect(url).close()


def test_a_second_opening_in_the_same_process_is_refused(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "log")
    (tmp_path / "link").symlink_to(tmp_path / "log")
    for path in (tmp_path / "log", tmp_path / "link"):
        with pytest.raises(EngineError, match="one writer at a time"):
            open_engine(path)
    engine.close()
    open_engine(tmp_path / "link").close()


def test_what_a_killed_process_answered_is_there(tmp_path: Path) -> None:
    url = f"log:///{tmp_path}/log"
    answered: dict[str, str] = {}
    for life in range(4):
        process = start(url)
        assert said(process) == "open"
        for number in range(5):
            answered[f"{life}-{number}"] = ask(process, f"{life}-{number}").split()[0]
        for op, hold in answered.items():
            assert ask(process, op) == f"{hold} True", "asked again, it is the same hold"
        assert process.stdin is not None
        process.stdin.write(f"unanswered-{life}\n")
        process.stdin.flush()
        end(process)
    with holdkit.connect(url) as hk:
        found = {hold.id for hold in hk.holds(limit=1_000)}
        assert set(answered.values()) <= found
        assert len(found) - len(answered) <= 4
        assert hk.verify().differences == ()


def in_child(work: object) -> int:
    """Run something in a forked child; its exit code."""
    child = os.fork()
    if child == 0:
        try:
            assert callable(work)
            work()
        except BaseException:  # noqa: BLE001 - the code is all a child can say
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_can_neither_write_nor_read(tmp_path: Path) -> None:
    engine = open_log(RealDirectory(tmp_path / "log"))
    live(engine)
    before = state(engine)

    def meddle() -> None:
        for work in (lambda: live(engine), lambda: state(engine), engine.snapshot):
            with pytest.raises(EngineError, match=r"before a fork|closed"):
                work()
        engine.close()

    assert in_child(meddle) == 0
    assert state(engine) == before
    live(engine)
    engine.close()


@pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")
def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "log")
    reading, writing = os.pipe()
    born, crying = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(crying, b"!")  # what is done on forking is done now
        os.close(writing)
        os.read(reading, 1)  # lives until the parent is done
        os._exit(0)
    try:
        assert os.read(born, 1) == b"!"
        engine.close()
        open_engine(tmp_path / "log").close()
    finally:
        for end in (writing, reading, born, crying):
            os.close(end)
        os.waitpid(child, 0)


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "log")
    live(engine)
    engine.snapshot()
    engine.close()
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "log").iterdir()} == {0o600}
    assert len(list((tmp_path / "log").iterdir())) == 2


def test_a_closed_log_says_so(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "log")
    engine.close()
    engine.close()
    for work in (lambda: live(engine), lambda: state(engine), engine.snapshot):
        with pytest.raises(EngineError, match="closed"):
            work()
