"""Backup and restore, killed before every step that touches the disk: there is a whole copy under the name, or none; the original is
as it was; and the same command, given again, succeeds.

The steps are Python's audit events of one undisturbed run: a child process is killed at the first, another at the second, and so on;
here at every third, in `make prove` at each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import holdkit
from holdkit.kernel.backup import back_up, restore
from tests.faults.sampling import STRIDE

STEPS = frozenset(
    {
        "open",
        "os.mkdir",
        "os.rename",
        "os.remove",
        "os.rmdir",
        "os.chmod",
        "sqlite3.connect",
        "shutil.rmtree",
        "backup.progress",
    }
)
STEP = 1 if STRIDE == 1 else 3
FEWEST = 10
"""Steps that each of them takes at least: fewer would mean that the events have other names."""


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that is killed before this step. Returns whether it was, False if it ended before that."""
    child = os.fork()
    if child == 0:
        seen = 0

        def kill(event: str, _: object) -> None:
            nonlocal seen
            if event in STEPS:
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(kill)
            work()
        except BaseException:  # noqa: BLE001  # the child must not go on with the tests of its parent
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def progress(_done: int, _total: int) -> None:
    """Each report is a step too."""
    sys.audit("backup.progress")


@pytest.fixture
def url(tmp_path: Path) -> str:
    place = f"sqlite:///{tmp_path}/holds"
    with holdkit.connect(place) as hk:
        hk.create_pool("gpu", total=99)
        hk.hold("gpu", 2, ttl=600)
    return place


def held(url: str) -> int:
    with holdkit.connect(url) as hk:
        assert hk.admin.verify().ok
        return hk.pool("gpu").held


def test_a_backup_is_whole_or_not_there(url: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    found, step = [], 1
    while killed_at(step, lambda: back_up(url, copy, progress)):
        found.append(copy.exists())
        if copy.exists():
            assert held(f"sqlite:///{copy}") == 2
            for path in (copy, *tmp_path.glob("copy-*")):
                remove(path)
        assert held(url) == 2
        step += STEP
    assert step > FEWEST
    assert not found[0], "killed before anything was done"


WRITER = """
import sys, holdkit
with holdkit.connect(sys.argv[1]) as hk:
    for line in sys.stdin:
        for _ in range(20):
            hk.release(hk.hold("gpu", 1, ttl=600))
        hk.hold("gpu", 1, ttl=600)
        print(hk.pool("gpu").held, flush=True)
"""
"""Holds one unit more for good at each line, among others that it releases."""


def test_a_backup_that_is_killed_while_another_process_writes(url: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    command = [sys.executable, "-c", WRITER, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        step, answered = 1, 2
        while True:
            writer.stdin.write("go\n")
            writer.stdin.flush()  # it writes from here on, while the backup runs
            killed = killed_at(step, lambda: back_up(url, copy, progress))
            if copy.exists():
                assert answered <= held(f"sqlite:///{copy}") <= answered + 1, "as of one moment"
                for path in (copy, *tmp_path.glob("copy-*")):
                    remove(path)
            answered += 1
            assert writer.stdout.readline() == f"{answered}\n", "the writer goes on, whoever is killed"
            if not killed:
                break
            step += 4 * STEP
        writer.stdin.close()
    assert writer.returncode == 0
    assert step > FEWEST
    assert held(url) == answered


def test_a_restore_leaves_the_old_or_the_new(url: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    back_up(url, copy, progress)
    with holdkit.connect(url) as hk:
        hk.hold("gpu", 5, ttl=600)
    seen, step = [], 1
    while killed_at(step, lambda: restore(copy, url, progress, force=True)):
        seen.append(held(url))
        assert seen[-1] in (7, 2)
        if seen[-1] == 2:
            with holdkit.connect(url) as hk:
                hk.hold("gpu", 5, ttl=600)
        step += STEP
    assert step > FEWEST
    assert seen[0] == 7
    assert held(url) == 2
    assert held(f"sqlite:///{copy}") == 2


def remove(path: Path) -> None:
    """A file, or a directory with its files."""
    if path.is_dir():
        for each in path.iterdir():
            each.unlink()
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
