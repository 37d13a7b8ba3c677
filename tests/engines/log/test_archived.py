"""A log whose first entries are archived: what is left of its files, and which of them may be missing or damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdkit.core.commands import PutRecord
from holdkit.core.reading import ReadHistory
from holdkit.engines.log import LogEngine
from holdkit.engines.log.inspection import copy, entries_of, look
from holdkit.engines.log.segments import HEAD, START
from holdkit.errors import EngineError
from tests.engines.commands import group_of
from tests.engines.log.directories import Directory, RealDirectory, hold_id, live, open_log, place_hold, say, state

BYTES = 1_400
"""Of a segment: some frames."""


def drop(engine: LogEngine, entries: int) -> int:
    """Archive so many entries; returns the last one."""
    with engine.archiver() as archiver:
        (lane,) = archiver.lanes()
        rows = archiver.read(0, lane.archived.through, entries)
        return archiver.drop(lane.archived, rows, "/archive").through


def used(directory: Directory) -> LogEngine:
    """A log of several segments; its last frame has several entries."""
    engine = open_log(directory, segment_bytes=BYTES)
    live(engine)
    for number in range(20):
        say(engine, PutRecord(kind="k", id="s", body=f'"{number}"'))
    engine.apply([group_of(PutRecord(kind="k", id=f"r{number}", body='"x"')) for number in range(5)])
    return engine


def test_segments_go_and_the_state_stays(directory: Directory) -> None:
    engine = used(directory)
    tables, journal = state(engine)
    segments = [name for name in directory.names() if name.endswith(".log")]
    assert drop(engine, 12) == 12
    left = directory.names()
    assert left[0] == "0000000000000012.baseline"
    assert [name for name in left if name.endswith(".log")] == segments[-(len(left) - 1) :] != segments
    assert state(engine) == (tables, journal[12:])
    assert list(engine.verify()) == []
    engine.snapshot()
    assert drop(engine, len(journal) - 14) == len(journal) - 2  # in the middle of the last frame
    for _ in range(2):
        directory.kill(engine)
        engine = open_log(directory, segment_bytes=BYTES)
        assert state(engine) == (tables, journal[-2:])
        assert list(engine.verify()) == []
    (row,) = engine.read(ReadHistory("", hold_id(1), 10))
    assert (row.seq, row.place) == (len(journal) - 2, "/archive")
    say(engine, place_hold(30))
    engine.close()
    engine = open_log(directory, segment_bytes=BYTES)
    assert len(state(engine)[1]) == 3
    engine.close()


def test_what_a_crash_has_left_is_removed(directory: Directory) -> None:
    engine = used(directory)
    old = {name: directory.get(name) for name in directory.names()}
    drop(engine, 5)
    first = {name: directory.get(name) for name in directory.names() if name.endswith(".baseline")}
    drop(engine, 8)
    engine.close()
    names = directory.names()
    for name, data in (old | first).items():
        if name not in names:
            directory.put(name, data)
    directory.put("0000000000000099.baseline.new", b"half")
    assert directory.names() != names
    engine = open_log(directory, segment_bytes=BYTES)
    assert directory.names() == names
    engine.close()


@pytest.mark.parametrize(
    "what", ["baseline missing", "baseline damaged", "baseline renamed", "segment missing", "cut short"]
)
def test_without_what_is_needed_it_is_refused(directory: Directory, what: str) -> None:
    engine = used(directory)
    drop(engine, 12)
    engine.close()
    baseline, *segments = directory.names()
    data = directory.get(baseline)
    says = "does not follow the segment before it"
    if what == "baseline damaged":
        directory.put(baseline, data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
        says = "baseline is damaged at offset"
    elif what == "baseline renamed":
        directory.put("0000000000000013.baseline", data)
        says = "behind entry 12: it was renamed"
    elif what == "cut short":  # the log ends before what was archived
        for name in segments[1:]:
            directory.remove(name)
        data = directory.get(segments[0])
        directory.put(segments[0], data[: START + HEAD.size + HEAD.unpack_from(data, START)[1]])  # its header is left
        says = "does not belong to its segments"
    else:
        directory.remove(baseline if what == "baseline missing" else segments[0])
    before = {name: directory.get(name) for name in directory.names()}
    with pytest.raises(EngineError, match=says):
        open_log(directory, segment_bytes=BYTES)
    assert {name: directory.get(name) for name in directory.names()} == before


def test_it_is_looked_at_and_copied(tmp_path: Path) -> None:
    directory = RealDirectory(tmp_path / "log")
    engine = used(directory)
    tables, journal = state(engine)
    drop(engine, 12)
    seen = look(directory.path)
    assert seen.ok
    assert [number for number, _ in entries_of(directory.path)] == list(range(13, len(journal) + 1))
    engine.snapshot()
    assert look(directory.path).ok
    copy(str(directory.path), tmp_path / "copy", lambda _done, _total: None)
    engine.close()
    engine = open_log(RealDirectory(tmp_path / "copy"))
    assert state(engine) == (tables, journal[12:])
    engine.close()
