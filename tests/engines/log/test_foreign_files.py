"""Wrong, mixed, missing and foreign files: refused, in words that say what to do, and nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from holdkit.engines.log import open_engine
from holdkit.engines.log.segments import segment_name
from holdkit.engines.log.snapshots import snapshot_name
from holdkit.errors import EngineError
from tests.engines.log.directories import (
    Directory,
    RealDirectory,
    SimulatedDirectory,
    live,
    open_log,
    place_hold,
    say,
    script,
    state,
)


def grown(directory: Directory, seed: int = 1, holds: int = 0) -> Directory:
    """A log of several segments with a snapshot in the middle."""
    engine = open_log(directory, seed=seed, segment_bytes=600)
    live(engine)
    engine.snapshot()
    for number in range(holds):
        say(engine, place_hold(100 + number))
    engine.close()
    return directory


def foreign_name(directory: Directory) -> None:
    directory.put("notes.txt", b"hello")


def foreign_content(directory: Directory) -> None:
    directory.put(segment_name(1), b"hello" * 100)


def renamed(directory: Directory) -> None:
    directory.put(segment_name(7), directory.get(segment_name(1)))


def doubled(directory: Directory) -> None:
    directory.put(segment_name(2), directory.get(segment_name(1)))


def first_missing(directory: Directory) -> None:
    directory.remove(segment_name(1))


def middle_missing(directory: Directory) -> None:
    directory.remove(segment_name(2))


def all_segments_missing(directory: Directory) -> None:
    for name in directory.names():
        if name.endswith(".log"):
            directory.remove(name)


def cut_short(directory: Directory) -> None:
    directory.put(segment_name(1), directory.get(segment_name(1))[:-50])


def segment_of_another_log(directory: Directory) -> None:
    other = grown(SimulatedDirectory(), seed=2)
    directory.put(segment_name(2), other.get(segment_name(2)))


def snapshot_of_another_log(directory: Directory) -> None:
    other = grown(SimulatedDirectory(), seed=2)
    name = snapshot_name(len(list(script())))
    directory.put(name, other.get(name))


def newer_format(directory: Directory) -> None:
    data = directory.get(segment_name(1))
    directory.put(segment_name(1), data[:7] + b"\x02" + data[8:])


def last_segment_missing_behind_a_snapshot(directory: Directory) -> None:
    last = max(name for name in directory.names() if name.endswith(".log"))
    directory.remove(last)


WRONG: Final[dict[Callable[[Directory], None], str]] = {
    foreign_name: "'notes.txt', which is not ours: give the log a directory of its own",
    foreign_content: "is not a segment of a Holdkit log",
    renamed: "it was renamed; give it its name back",
    doubled: "it was renamed; give it its name back",
    first_missing: "does not follow the segment before it",
    middle_missing: "does not follow the segment before it",
    all_segments_missing: "a snapshot but no segments",
    cut_short: "is cut short",
    segment_of_another_log: "does not follow the segment before it",
    snapshot_of_another_log: "a snapshot that does not belong to its segments",
    newer_format: "written by a newer Holdkit",
    last_segment_missing_behind_a_snapshot: "a snapshot that does not belong to its segments",
}


@pytest.mark.parametrize("meddle", WRONG, ids=lambda meddle: meddle.__name__)
def test_refused_and_nothing_changed(directory: Directory, meddle: Callable[[Directory], None]) -> None:
    grown(directory)
    meddle(directory)
    before = {name: directory.get(name) for name in directory.names()}
    for _ in range(2):
        with pytest.raises(EngineError, match=WRONG[meddle]):
            open_log(directory)
    assert {name: directory.get(name) for name in directory.names()} == before


def diverged(directory: Directory) -> tuple[Directory, Directory]:
    """Two copies of one log that were both written to: same log, same numbers, same sizes, other contents."""
    engine = open_log(directory, seed=1, segment_bytes=600)
    live(engine)
    engine.close()
    copies = (SimulatedDirectory(), SimulatedDirectory())
    for index, copy in enumerate(copies):
        for name in directory.names():
            copy.put(name, directory.get(name))
        engine = open_log(copy, seed=7, segment_bytes=600)
        for number in range(6):
            say(engine, place_hold(100 + 10 * index + number))
        engine.snapshot()
        engine.close()
    return copies


def test_halves_of_two_copies_are_told_apart(directory: Directory) -> None:
    one, other = diverged(directory)
    assert one.names() == other.names()
    different = [name for name in one.names() if one.get(name) != other.get(name)]
    assert len(different) >= 3
    for name in different:
        mixed = SimulatedDirectory()
        for each in one.names():
            mixed.put(each, (other if each == name else one).get(each))
        if name == max(each for each in one.names() if each.endswith(".log")):
            continue  # only the newest part differs: that is a copy as good as the other
        with pytest.raises(EngineError, match=r"does not follow|does not belong|damaged"):
            open_log(mixed)


def test_a_snapshot_of_the_other_copy_is_refused(directory: Directory) -> None:
    one, other = diverged(directory)
    (name,) = [name for name in one.names() if name.endswith(".snapshot")]
    one.put(name, other.get(name))
    with pytest.raises(EngineError, match="does not belong"):
        open_log(one)


def test_a_copy_of_the_whole_directory_is_a_backup(directory: Directory) -> None:
    grown(directory, holds=2)
    copy = SimulatedDirectory()
    for name in directory.names():
        copy.put(name, directory.get(name))
    mine, theirs = open_log(directory), open_log(copy)
    assert state(mine) == state(theirs)
    mine.close()
    theirs.close()


def test_a_path_that_is_no_directory_says_so(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    for path in (file, file / "below", tmp_path / "no" / "such"):
        with pytest.raises(EngineError, match="it must be a directory we may write"):
            open_engine(path)
    assert RealDirectory(tmp_path).names() == ["file"]
