"""An archive run, killed by SIGKILL before every step that leaves something behind: no entry is lost, none is there twice, the files and
the journal agree, and the next run goes on.

The steps are calls of C functions in a child process: those that change the directory, and every statement of the transactions that
delete entries. (On PostgreSQL the child is killed when it has sent them, and has read no answer.) A sample of them here, every one with
HOLDKIT_FAULTS=every (`make prove`).
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import holdkit
from holdkit.core.commands import CreatePool
from holdkit.engines.archive_files import ArchiveDirectory
from holdkit.engines.postgres.archiving import PostgresArchiver
from holdkit.engines.sqlite.archiving import SqliteArchiver
from holdkit.kernel import archive
from holdkit.testing import FakeClock
from tests.engines.test_archive import DAY, EVERY, World, all_entries
from tests.faults.sampling import STRIDE

OF_THE_DIRECTORY = frozenset({"mkdir", "fsync", "replace", "unlink", "rename"})
OF_A_DATABASE = frozenset({"execute", "executemany", "poll"})
PATIENCE = 120
"""Seconds after which a child that does not end is killed, and the test fails."""
FEWEST = {"sqlite": 30, "postgres": 20}
"""Steps of one run at least: fewer would mean that the functions have other names."""
SAMPLED = {"sqlite": 3, "postgres": 5}
"""In a sample, the distance between two steps that are tried. Odd, because steps of two kinds take turns."""


def is_step(frame: FrameType, function: Any) -> bool:
    """Whether something is left behind if the process ends before this call."""
    if getattr(function, "__module__", None) == "posix":
        return function.__name__ in OF_THE_DIRECTORY
    if function.__name__ not in OF_A_DATABASE:
        return False
    caller: FrameType | None = frame
    while caller is not None and caller.f_code.co_name != "drop":
        caller = caller.f_back
    return caller is not None


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Run `work` in a child that is killed before this step. Returns whether it was, False if it ended before that."""
    child = os.fork()
    if child == 0:
        seen = 0

        def kill(frame: FrameType, event: str, function: Any) -> None:
            nonlocal seen
            if event == "c_call" and is_step(frame, function):
                seen += 1
                if seen == step:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            signal.alarm(PATIENCE)
            sys.setprofile(kill)
            work()
        except BaseException:  # noqa: BLE001  # the child must not go on with the tests of its parent
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), code
    return code != 0


def use(world: World, number: int) -> None:
    """Eight entries, and time passes."""
    first, second = (world.hk.hold("p", 1, ttl="20d", account="c1") for _ in range(2))
    world.hk.confirm(first)
    world.hk.release(second)
    world.hk.apply([CreatePool(id=f"{name}{number}", total=1) for name in ("a", "b", "c", "d")])
    world.clock.advance(EVERY * DAY)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_anywhere_nothing_is_lost_and_nothing_is_there_twice(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    for archiver in (SqliteArchiver, PostgresArchiver):
        monkeypatch.setattr(archiver, "step", 3)
    monkeypatch.setattr(archive, "MAX_ENTRIES", 6)
    url = request.getfixturevalue("migrated")(lanes=2) if kind == "postgres" else f"{kind}:///{tmp_path}/holds"
    world = World(url, tmp_path)

    def run() -> None:
        with holdkit.connect(url, clock=FakeClock(world.clock())) as hk:
            hk.admin.archive(before="30d", to=world.to)

    world.live(40)
    whole: set[tuple[int, int, str]] = set()
    step, between = 1, 0
    try:
        while True:
            whole |= {one for one in all_entries(world.hk) if "journal.baseline" not in one[2]}
            world.hk.close()
            killed = killed_at(step, run)
            world.hk = holdkit.connect(url, clock=world.clock)
            if world.to.exists():
                assert set(world.everything()) == whole
            assert world.hk.admin.verify().differences == ()
            between += any(path.name.endswith(".unfinished") for path in world.to.glob(".*"))
            if not killed:
                break
            world.archive()
            assert [path.name for path in world.to.glob(".*")] == []
            files = ArchiveDirectory(world.to).files()
            pairs = [(one.last + 1, two.first) for one, two in pairwise(files) if one.lane == two.lane]
            assert [one for one, two in pairs if one != two] == [], "an entry is in two files, or in none"
            use(world, step)
            step += 1 if STRIDE == 1 else SAMPLED[kind]
        assert world.hk.admin.verify(archive=world.to).differences == ()
    finally:
        world.hk.close()
    assert step > FEWEST[kind]
    assert between > 0, "killed while a file was written"
